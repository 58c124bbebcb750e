#include "engine/format/strings_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "engine/format/directory_names.h"
#include "ground/base/utf8.h"
#include "ground/json/scanner.h"

namespace holdfast {
namespace {

// Decodes a part of a JSON pointer; nullopt for a stray "~".
std::optional<std::string> MemberOf(std::string_view element) {
  std::string member;
  for (size_t i = 0; i < element.size(); ++i) {
    if (element[i] != '~') {
      member += element[i];
      continue;
    }
    const char code = i + 1 < element.size() ? element[i + 1] : 0;
    if (code != '0' && code != '1') return std::nullopt;
    member += code == '0' ? '~' : '/';
    ++i;
  }
  return member;
}

void AppendElement(std::string& pointer, std::string_view member) {
  for (char c : member) {
    if (c == '~') {
      pointer += "~0";
    } else if (c == '/') {
      pointer += "~1";
    } else {
      pointer += c;
    }
  }
}

Status BadString(std::string_view name, std::string_view why) {
  return InvalidArgumentError("string leaf '" + std::string(name) +
                              "': " + std::string(why));
}

Status Insert(nlohmann::json& root, const std::string& name,
              const std::string& text) {
  if (!IsValidUtf8(name) || !IsValidUtf8(text)) {
    return BadString(name, "not valid UTF-8");
  }
  if (std::count(name.begin(), name.end(), '/') >= kJsonDepthMax) {
    return BadString(name, "too many '/'");
  }
  nlohmann::json* node = &root;
  for (size_t start = 0; start <= name.size();) {
    const size_t end = std::min(name.find('/', start), name.size());
    std::optional<std::string> member =
        MemberOf(std::string_view(name).substr(start, end - start));
    if (!member) return BadString(name, "'~' must be followed by '0' or '1'");
    if (!node->is_null() && !node->is_object()) {
      return BadString(name, "a part of this name is a string leaf itself");
    }
    node = &(*node)[*member];
    start = end + 1;
  }
  if (!node->is_null()) {
    return BadString(name, "other string leaves are inside this name");
  }
  *node = text;
  return Status();
}

class StringsParser {
 public:
  explicit StringsParser(std::string_view text) : in_(text) {}

  Status Parse() {
    HF_RETURN_IF_ERROR(in_.ReadObject(
        [&](std::string_view member) { return ReadMember("", member); }));
    return in_.ReadEnd();
  }

  StringsFile strings;

 private:
  Status ReadMember(std::string name, std::string_view member) {
    AppendElement(name, member);
    // If two members have the same name, a parser keeps one of them, and
    // guessing which one would be wrong.
    if (!names_.insert(name).second) return in_.Error("member is given twice");
    if (in_.Peek() == '{') {
      name += '/';
      return in_.ReadObject(
          [&](std::string_view inner) { return ReadMember(name, inner); });
    }
    return in_.ReadString(strings[std::move(name)]);
  }

  JsonScanner in_;
  std::set<std::string> names_;  // names of strings and of objects
};

}  // namespace

Result<std::string> SerializeStringsFile(const StringsFile& strings) {
  nlohmann::json root = nlohmann::json::object();
  for (const auto& [name, text] : strings) {
    HF_RETURN_IF_ERROR(Insert(root, name, text));
  }
  return root.dump();
}

Result<StringsFile> ParseStringsFile(std::string_view text) {
  StringsParser parser(text);
  const Status status = parser.Parse();
  if (!status.ok()) return status.WithContext(kStringsFile);
  return std::move(parser.strings);
}

}  // namespace holdfast
