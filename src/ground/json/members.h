// Reads members of the JSON objects that services return.
//
// Thread-safety: pure functions. Errors: DataLoss (not a JSON object); messages
// leave out the text, since it may contain anything.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

Result<nlohmann::json> ParseJsonObject(std::string_view text);
// Returns "" if no such member exists or it is not a string.
std::string StringMember(const nlohmann::json& json, std::string_view name);
// Returns the member's number, which may also be digits in a string, as Google
// writes 64-bit numbers.
std::optional<uint64_t> NumberMember(const nlohmann::json& json,
                                     std::string_view name);
// Returns the object on one line; bytes that are not UTF-8 are replaced.
std::string JsonLine(const nlohmann::json& json);

}  // namespace holdfast
