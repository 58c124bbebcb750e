// The part of Look that finds files where listing is impossible: it requests
// the names that checkpoints use.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "ground/base/status_macros.h"
#include "stores/place/bucket_listing.h"
#include "stores/place/look.h"
#include "stores/place/well_known_names.h"

namespace holdfast {
namespace {

constexpr uint64_t kParsedBytesMax = 64 << 20;
constexpr size_t kItemCountMax = 64;

// Common item names, tried if no metadata names the items.
constexpr std::string_view kUsualItems[] = {"default", "state", "params",
                                            "pytree", "model"};

nlohmann::json ParseObject(std::string_view text) {
  if (text.size() > kParsedBytesMax) return nlohmann::json::object();
  nlohmann::json parsed = nlohmann::json::parse(text, nullptr, false);
  return parsed.is_object() ? parsed : nlohmann::json::object();
}

// Returns whether this is an acceptable path below a directory. It comes from a
// file, which may be damaged or malicious.
bool IsPlainPath(const std::string& path) {
  return path.size() <= 1024 && CheckKey(path).ok();
}

// Returns true for failures that do not show whether a file exists.
bool SaysNothing(const Status& status) {
  return status.code() == StatusCode::kUnavailable ||
         status.code() == StatusCode::kFailedPrecondition ||
         status.code() == StatusCode::kDeadlineExceeded ||
         status.code() == StatusCode::kCancelled;
}

}  // namespace

Status Look::ProbeFile(const std::string& key) {
  if (FindLocked(key).presence != Presence::kUnknown) return {};
  Result<ObjectEntry> object = root_.bucket->Head(key);
  if (object.ok()) {
    object->key = key;
    AddFile(std::move(object).value());
  } else if (SaysNothing(object.status())) {
    return object.status();
  } else {
    absent_.insert(key);
  }
  return {};
}

// Requests the probed names directly in each directory.
Status Look::ProbeNames(const std::vector<std::string>& prefixes) {
  std::vector<GetRequest> requests;
  for (const std::string& prefix : prefixes) {
    if (!probed_.insert(prefix).second) continue;
    for (const std::string_view name : kProbedNames) {
      requests.push_back({prefix + std::string(name), {}, "", {}});
    }
    for (const std::string_view directory : kOpeningDirectories) {
      requests.push_back(
          {prefix + std::string(directory) + "/process_0", {}, "", {}});
    }
  }
  if (requests.empty()) return {};
  std::vector<Result<GetResult>> results = root_.bucket->Get(requests);
  Status trouble;
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::string& key = requests[i].key;
    const Status status = results[i].status();
    if (status.ok()) {
      ObjectEntry object = std::move(results[i]->object);
      object.key = key;
      AddFile(std::move(object));
      Keep(key, std::move(results[i]->bytes));
    } else if (SaysNothing(status)) {
      for (const std::string& prefix : prefixes) probed_.erase(prefix);
      return status;
    } else if (status.code() == StatusCode::kResourceExhausted) {
      // The file is too large to fetch before a reader needs it, so only its
      // existence is requested.
      HF_RETURN_IF_ERROR(ProbeFile(key));
    } else {
      absent_.insert(key);
      // A store that these credentials may not list reports missing objects as
      // forbidden, too.
      if (status.code() != StatusCode::kNotFound) trouble = status;
    }
  }
  // If every request was refused, the credentials are wrong.
  return contents_.empty() ? trouble : Status();
}

void Look::AddFilesOfDigests(const std::string& prefix) {
  const auto content = contents_.find(prefix + std::string(kDigestsName));
  if (content == contents_.end()) return;
  const nlohmann::json digests = ParseObject(content->second.view());
  const auto rows = digests.find("files");
  if (rows == digests.end() || !rows->is_array()) return;
  for (const nlohmann::json& row : *rows) {
    const bool is_row = row.is_array() && row.size() == 3 &&
                        row[0].is_string() && row[1].is_number_unsigned();
    if (!is_row || !IsPlainPath(row[0].get<std::string>())) continue;
    const std::string key = prefix + row[0].get<std::string>();
    if (files_.contains(key)) continue;
    AddFile({key, row[1].get<uint64_t>(), "", 0});
  }
}

std::vector<std::string> Look::ItemNames(const std::string& prefix) const {
  std::vector<std::string> names;
  const auto content = contents_.find(prefix + std::string(kMetadataName));
  if (content != contents_.end()) {
    const nlohmann::json metadata = ParseObject(content->second.view());
    const auto items = metadata.find("item_handlers");
    if (items != metadata.end() && items->is_object()) {
      for (const auto& item : items->items()) {
        if (IsPlainPath(item.key())) names.push_back(item.key());
        if (names.size() == kItemCountMax) return names;
      }
    }
  }
  if (names.empty() && !files_.contains(prefix + "_METADATA")) {
    names.assign(std::begin(kUsualItems), std::end(kUsualItems));
  }
  return names;
}

Status Look::Probe(const std::string& prefix) {
  if (probed_.contains(prefix)) return {};
  HF_RETURN_IF_ERROR(ProbeNames({prefix}));
  AddFilesOfDigests(prefix);
  // Items contain no items, so only the root is searched for them.
  if (prefix != root_.prefix()) return {};
  std::vector<std::string> items;
  for (const std::string& name : ItemNames(prefix)) {
    items.push_back(prefix + name + "/");
  }
  HF_RETURN_IF_ERROR(ProbeNames(items));
  for (const std::string& item : items) AddFilesOfDigests(item);
  return {};
}

}  // namespace holdfast
