#include "holdfast/version.h"

namespace holdfast {

std::string_view Version() { return HOLDFAST_PROJECT_VERSION; }

}  // namespace holdfast
