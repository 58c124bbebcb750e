// Reads JSON documents of other programs, in which a name may occur twice and a
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

// Parses the document. Returns DataLoss if it is malformed, is not an object,
// or has a name twice in one object.
Result<nlohmann::json> ParseUniqueJson(std::string_view text);

// Returns the value if it is an integer of at least 1, or nullopt.
std::optional<int64_t> PositiveNumber(const nlohmann::json& value);
// Returns the value as shown in messages, cut to 80 bytes.
std::string ShortDump(const nlohmann::json& value);

}  // namespace holdfast
