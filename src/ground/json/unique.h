// JSON documents of other programs, in which a name may be given twice, and a
// number may be anything.
//
// Thread-safety: pure. Errors: DataLoss.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

// The document; DataLoss when it is malformed, is not an object, or gives a
// name twice in one object.
Result<nlohmann::json> ParseUniqueJson(std::string_view text);

// A whole number of at least 1; absent for anything else.
std::optional<int64_t> PositiveNumber(const nlohmann::json& value);
// The value as a message shows it, cut to 80 bytes.
std::string ShortDump(const nlohmann::json& value);

}  // namespace holdfast
