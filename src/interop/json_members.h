// JSON documents of other programs, in which a name may be given twice.
//
// Thread-safety: pure. Errors: DataLoss.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

// The document; DataLoss when it is none, is no object, or gives a name twice
// in one object.
Result<nlohmann::json> ParseUniqueJson(std::string_view text);

}  // namespace holdfast
