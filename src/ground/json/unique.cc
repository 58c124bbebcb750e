#include "ground/json/unique.h"

#include <string>
#include <unordered_set>
#include <vector>

namespace holdfast {

Result<nlohmann::json> ParseUniqueJson(std::string_view text) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::unordered_set<std::string>> names;
  std::string twice;
  const auto watch = [&](int, Event event, nlohmann::json& parsed) {
    if (event == Event::object_start) names.emplace_back();
    if (event == Event::object_end) names.pop_back();
    if (event == Event::key) {
      const auto& name = parsed.get_ref<const std::string&>();
      if (!names.back().insert(name).second) twice = name;
    }
    return true;
  };
  nlohmann::json document =
      nlohmann::json::parse(text, watch, /*allow_exceptions=*/false);
  if (document.is_discarded()) return DataLossError("not a JSON document");
  if (!document.is_object()) return DataLossError("not a JSON object");
  if (!twice.empty()) {
    return DataLossError("\"" + twice + "\" is there twice");
  }
  return document;
}

std::optional<int64_t> PositiveNumber(const nlohmann::json& value) {
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() ||
                     value.get<uint64_t>() <= uint64_t{INT64_MAX}) &&
                    value.get<int64_t>() >= 1;
  return fits ? std::optional(value.get<int64_t>()) : std::nullopt;
}

std::string ShortDump(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
      .substr(0, 80);
}

}  // namespace holdfast
