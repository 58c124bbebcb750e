// ConvertReport as text and as JSON.
#include <nlohmann/json.hpp>

#include "holdfast/tools/convert.h"

namespace holdfast {

std::string ConvertReportText(const ConvertReport& report) {
  std::string text;
  const auto line = [&text](std::string_view first, const std::string& rest) {
    text.append(first).append(rest).append("\n");
  };
  if (!report.resume_text.empty()) line("", report.resume_text);
  for (const ConvertReport::Entry& entry : report.entries) {
    const bool is_renamed =
        !entry.new_name.empty() && entry.new_name != entry.leaf;
    line(entry.leaf,
         (is_renamed ? " -> " + entry.new_name : "") + ": " + entry.what);
  }
  for (const std::string& note : report.notes) line("note: ", note);
  return text;
}

std::string ConvertReportJson(const ConvertReport& report) {
  nlohmann::ordered_json leaves = nlohmann::ordered_json::array();
  for (const ConvertReport::Entry& entry : report.entries) {
    nlohmann::ordered_json one{{"leaf", entry.leaf}};
    if (!entry.new_name.empty()) one["new_name"] = entry.new_name;
    one["what"] = entry.what;
    leaves.push_back(std::move(one));
  }
  const nlohmann::ordered_json json{{"leaves", std::move(leaves)},
                                    {"notes", report.notes},
                                    {"resumed", report.is_resumed},
                                    {"resume_text", report.resume_text},
                                    {"kept_bytes", report.kept_bytes}};
  return json.dump(-1, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace holdfast
