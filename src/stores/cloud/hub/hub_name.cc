#include "stores/cloud/hub/hub_name.h"

#include <algorithm>
#include <vector>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "stores/http/url.h"
#include "stores/storage/store.h"

namespace holdfast {
namespace {

constexpr size_t kNameBytesMax = 96;
constexpr size_t kRevisionBytesMax = 255;

Status BadName(std::string_view root, std::string_view why) {
  return InvalidArgumentError(
      "URL " + RedactUrl(root) + ": " + std::string(why) +
      "; want hf://org/model[@revision][/path], or datasets/ or spaces/ before "
      "org");
}

// Returns true if `part` has only characters that the hub allows, no "..", and
// no "--", which the cache's folder names use as a separator.
bool IsPartOfId(std::string_view part) {
  const auto is_good = [](char c) {
    const char lower = LowerCase(c);
    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '_' || c == '.';
  };
  const auto is_edge = [](char c) { return c == '-' || c == '.'; };
  return !part.empty() && part.size() <= kNameBytesMax &&
         std::all_of(part.begin(), part.end(), is_good) &&
         !is_edge(part.front()) && !is_edge(part.back()) &&
         part.find("..") == part.npos && part.find("--") == part.npos;
}

bool IsRevision(std::string_view revision) {
  const auto is_good = [](unsigned char c) { return c > 0x20 && c != 0x7f; };
  return revision.size() <= kRevisionBytesMax && CheckKey(revision).ok() &&
         std::all_of(revision.begin(), revision.end(), is_good);
}

}  // namespace

std::string HubName::page() const {
  return kind == "models" ? id : kind + "/" + id;
}

std::string HubName::cache_folder() const {
  std::string folder = kind + "--" + id;
  return folder.replace(folder.find('/'), 1, "--");
}

Result<HubName> ParseHubRoot(std::string_view root) {
  std::string_view rest =
      root.substr(std::min(root.size(), root.find("://") + 3));
  HubName name;
  for (const std::string_view kind : {"datasets", "spaces"}) {
    if (!rest.starts_with(std::string(kind) + "/")) continue;
    name.kind = kind;
    rest.remove_prefix(kind.size() + 1);
  }
  const size_t at = rest.find('@');
  name.id = rest.substr(0, at);
  const size_t slash = name.id.find('/');
  if (slash == std::string::npos) {
    return BadName(root, "names no repository of a hub");
  }
  if (!IsPartOfId(std::string_view(name.id).substr(0, slash)) ||
      !IsPartOfId(std::string_view(name.id).substr(slash + 1))) {
    return BadName(root, "\"" + name.id + "\" is not a repository's name");
  }
  if (at == rest.npos) return name;
  name.revision = PercentDecoded(rest.substr(at + 1));
  if (!IsRevision(name.revision)) {
    return BadName(root, "what follows '@' is not a revision's name");
  }
  return name;
}

bool IsHubCommit(std::string_view text) {
  return text.size() == 40 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace holdfast
