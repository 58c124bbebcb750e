// Members of the JSON objects that services answer with.
//
// Thread-safety: pure functions. Errors: DataLoss (no JSON object), without the
// text: it may hold anything.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

Result<nlohmann::json> ParseJsonObject(std::string_view text);
// "" where no such member exists or it is not a string.
std::string StringMember(const nlohmann::json& json, std::string_view name);
// A number, or its digits in a string, as Google writes 64 bits.
std::optional<uint64_t> NumberMember(const nlohmann::json& json,
                                     std::string_view name);
// The object as a line; what is no UTF-8 is replaced.
std::string JsonLine(const nlohmann::json& json);

}  // namespace holdfast
