#include "holdfast/version.h"

// In a file that the build writes (cmake/commit.cmake).
extern const char kHoldfastCommit[];

namespace holdfast {

std::string_view Version() { return HOLDFAST_PROJECT_VERSION; }

std::string_view Commit() { return kHoldfastCommit; }

}  // namespace holdfast
