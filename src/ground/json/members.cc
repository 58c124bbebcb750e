#include "ground/json/members.h"

#include "ground/base/text.h"

namespace holdfast {

Result<nlohmann::json> ParseJsonObject(std::string_view text) {
  nlohmann::json json =
      nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return DataLossError("the answer is not a JSON object");
  }
  return json;
}

std::string StringMember(const nlohmann::json& json, std::string_view name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_string()) return "";
  return found->get<std::string>();
}

std::optional<uint64_t> NumberMember(const nlohmann::json& json,
                                     std::string_view name) {
  const auto found = json.find(name);
  if (found == json.end()) return std::nullopt;
  if (found->is_number_unsigned()) return found->get<uint64_t>();
  if (!found->is_string()) return std::nullopt;
  return ParseNumber<uint64_t>(found->get_ref<const std::string&>());
}

std::string JsonLine(const nlohmann::json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false,
                   nlohmann::json::error_handler_t::replace);
}

}  // namespace holdfast
