#include "stores/cloud/hub/hub_listing.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "ground/json/members.h"
#include "stores/cloud/hub/hub_name.h"
#include "stores/storage/store.h"

namespace holdfast {
namespace {

constexpr size_t kPathBytesMax = 1024;
constexpr uint64_t kFileBytesMax = std::numeric_limits<int64_t>::max();

Status AddEntry(const nlohmann::json& entry, HubFiles& files) {
  if (!entry.is_object()) return DataLossError("an entry is not a JSON object");
  if (StringMember(entry, "type") != "file") return {};
  const std::string path = StringMember(entry, "path");
  if (path.size() > kPathBytesMax || !CheckKey(path).ok()) {
    return DataLossError("a file has a path that leads out of the repository");
  }
  const std::optional<uint64_t> size = NumberMember(entry, "size");
  if (!size || *size > kFileBytesMax) {
    return DataLossError("a file has no size");
  }
  HubFile file{*size, StringMember(entry, "oid")};
  const auto lfs = entry.find("lfs");
  if (lfs != entry.end() && lfs->is_object()) {
    const std::string hash = StringMember(*lfs, "oid");
    if (!hash.empty()) file.version = hash;
  }
  if (!files.emplace(path, std::move(file)).second) {
    return DataLossError("a file is listed twice");
  }
  if (files.size() <= kHubFileCountMax) return {};
  return DataLossError("it lists more than " +
                       std::to_string(kHubFileCountMax) + " files");
}

// Removes and returns the text before `end`, or all text without an `end`.
// Removes the `end` as well.
std::string_view TakeUpTo(char end, std::string_view& text) {
  const size_t at = text.find(end);
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at == text.npos ? text.size() : at + 1);
  return taken;
}

}  // namespace

Status AddTreePage(std::string_view text, HubFiles& files) {
  const nlohmann::json page =
      nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!page.is_array()) return DataLossError("the answer is not a JSON array");
  for (const nlohmann::json& entry : page) {
    HF_RETURN_IF_ERROR(AddEntry(entry, files));
  }
  return {};
}

Result<std::string> CommitOfRevision(std::string_view text) {
  HF_ASSIGN_OR_RETURN(const nlohmann::json answer, ParseJsonObject(text));
  std::string commit = StringMember(answer, "sha");
  if (IsHubCommit(commit)) return commit;
  return DataLossError("the answer names no commit");
}

std::string NextOfLink(std::string_view link) {
  while (!link.empty()) {
    TakeUpTo('<', link);
    const std::string_view target = TakeUpTo('>', link);
    for (std::string_view values = TakeUpTo(',', link); !values.empty();) {
      const std::string_view value = TrimSpaces(TakeUpTo(';', values));
      if (value == "rel=\"next\"" || value == "rel=next") {
        return std::string(target);
      }
    }
  }
  return "";
}

}  // namespace holdfast
