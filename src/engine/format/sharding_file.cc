#include "engine/format/sharding_file.h"

#include <utility>
#include <vector>

#include "engine/format/directory_names.h"
#include "ground/base/text.h"
#include "ground/json/scanner.h"
#include "ground/json/text.h"

namespace holdfast {
namespace {

Status ReadShardings(JsonScanner& in, ShardingFile& shardings) {
  HF_RETURN_IF_ERROR(in.ReadObject([&](std::string_view key) {
    std::optional<std::string> name = UrlSafeBase64Decode(key);
    if (!name) return in.Error("member name is not URL-safe base64");
    const auto [entry, is_new] = shardings.emplace(*std::move(name), "");
    if (!is_new) return in.Error("member is given twice");
    return in.ReadString(entry->second);
  }));
  return in.ReadEnd();
}

}  // namespace

std::string SerializeShardingFile(const ShardingFile& shardings) {
  std::vector<std::pair<std::string, const std::string*>> members;
  members.reserve(shardings.size());
  for (const auto& [name, json] : shardings) {
    members.emplace_back(UrlSafeBase64(name), &json);
  }
  std::sort(members.begin(), members.end());
  std::string out = "{";
  for (const auto& [key, json] : members) {
    if (out.size() > 1) out += ',';
    out += '"' + key + "\":";
    AppendCompactJsonString(out, *json);
  }
  out += '}';
  return out;
}

Result<ShardingFile> ParseShardingFile(std::string_view text) {
  // Orbax reads the file with TensorStore's driver for JSON files, which stops
  // at a NUL.
  JsonScanner in(text.substr(0, text.find('\0')));
  ShardingFile shardings;
  const Status status = ReadShardings(in, shardings);
  if (!status.ok()) return status.WithContext(kShardingFile);
  return shardings;
}

}  // namespace holdfast
