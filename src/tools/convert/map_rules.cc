// Parses LeafMap's rules from command-line text and from tables.
#include <nlohmann/json.hpp>

#include "ground/base/text.h"
#include "holdfast/tools/convert.h"

namespace holdfast {
namespace {

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

Result<std::vector<LeafMap::Rename>> RenamesOfJson(std::string_view text) {
  const auto table = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!table.is_object()) {
    return InvalidArgumentError("rename table: it is not a JSON object");
  }
  std::vector<LeafMap::Rename> rules;
  for (const auto& [old_name, new_name] : table.items()) {
    if (!new_name.is_string()) {
      return InvalidArgumentError("rename table: the new name of \"" +
                                  old_name + "\" is not a string");
    }
    rules.push_back({old_name, new_name.get<std::string>(), true});
  }
  return rules;
}

}  // namespace

Result<LeafMap::Rename> ParseRename(std::string_view text) {
  LeafMap::Rename rule;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '=') {
      rule.replacement = text.substr(i + 1);
      if (rule.pattern.empty() || rule.replacement.empty()) break;
      return rule;
    }
    const bool is_escape = text[i] == '\\' && i + 1 < text.size();
    if (is_escape && text[i + 1] != '=') rule.pattern += '\\';
    if (is_escape) ++i;
    rule.pattern += text[i];
  }
  return InvalidArgumentError("got '" + std::string(text) +
                              "', want PATTERN=REPLACEMENT");
}

Result<std::vector<LeafMap::Rename>> ParseRenameTable(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin != std::string_view::npos && text[begin] == '{') {
    return RenamesOfJson(text.substr(begin));
  }
  std::vector<LeafMap::Rename> rules;
  size_t line_number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = Trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line_number;
    if (line.empty() || line.front() == '#') continue;
    Result<LeafMap::Rename> rule = ParseRename(line);
    if (!rule.ok()) {
      return rule.status().WithContext("rename table: line " +
                                       std::to_string(line_number));
    }
    rules.push_back(std::move(rule).value());
  }
  return rules;
}

Result<LeafMap::Cast> ParseCast(std::string_view text) {
  const size_t equals = text.rfind('=');
  if (equals != std::string_view::npos && equals > 0) {
    if (const auto dtype = DTypeFromName(text.substr(equals + 1))) {
      return LeafMap::Cast{std::string(text.substr(0, equals)), *dtype};
    }
  }
  return InvalidArgumentError("got '" + std::string(text) +
                              "', want GLOB=DTYPE such as 'params.*=bfloat16'");
}

Result<LeafMap::Shards> ParseShards(std::string_view text) {
  const Status bad =
      InvalidArgumentError("got '" + std::string(text) +
                           "', want GLOB=N,N,... such as 'decoder.*=4,1'");
  const size_t equals = text.rfind('=');
  if (equals == std::string_view::npos || equals == 0) return bad;
  LeafMap::Shards rule{std::string(text.substr(0, equals)), {}};
  std::string_view rest = text.substr(equals + 1);
  while (true) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const auto count = ParseNumber<int64_t>(rest.substr(0, comma));
    if (!count || *count < 1) return bad;
    rule.part_counts.push_back(*count);
    if (comma == rest.size()) return rule;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace holdfast
