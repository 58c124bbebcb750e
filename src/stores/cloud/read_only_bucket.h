// ReadOnlyBucket: a Bucket that refuses every write with a message that says
// what kind of server it is on.
//
// Thread-safety, ownership, errors: as Bucket; writes are Unimplemented.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stores/cloud/bucket.h"

namespace holdfast {

class ReadOnlyBucket : public Bucket {
 public:
  uint64_t part_bytes(uint64_t /*index*/) const override { return 16 << 20; }

  Result<std::string> Put(std::string_view key,
                          std::span<const std::string_view> /*pieces*/,
                          const Condition& /*condition*/) override {
    return Refuse("write", key);
  }
  Result<std::unique_ptr<Upload>> StartUpload(std::string_view key) override {
    return Refuse("write", key);
  }
  Status Delete(std::string_view key, const Condition& /*condition*/) override {
    return Refuse("delete", key);
  }
  Status DeleteAll(std::span<const std::string> keys) override {
    return keys.empty() ? Status() : Refuse("delete", keys.front());
  }
  Result<std::string> Copy(std::string_view /*source*/, std::string_view target,
                           const Condition& /*condition*/,
                           const std::string& /*source_version*/) override {
    return Refuse("write", target);
  }
  Result<std::vector<UnfinishedUpload>> ListUploads(
      std::string_view /*prefix*/) override {
    return std::vector<UnfinishedUpload>();
  }
  Status AbortUpload(const UnfinishedUpload& upload) override {
    return Refuse("write", upload.key);
  }

 protected:
  // `kind` names the servers that can only be read, for example "web servers".
  explicit ReadOnlyBucket(std::string_view kind) : kind_(kind) {}

 private:
  Status Refuse(std::string_view verb, std::string_view key) const {
    return UnimplementedError(std::string(verb) + " " + UrlOf(key) + ": " +
                              std::string(kind_) + " are only read from");
  }

  const std::string_view kind_;
};

// Returns all objects that match a request, on one page. `objects` is sorted by
// name, which is the key without `root_prefix`. `entry_of` returns an object's
// entry, given its key and its value in `objects`.
template <typename Map, typename EntryOf>
ListPage ListNames(const ListRequest& request, std::string_view root_prefix,
                   const Map& objects, const EntryOf& entry_of) {
  ListPage page;
  const std::string& after =
      request.page_token.empty() ? request.start_after : request.page_token;
  const std::string_view prefix = request.prefix;
  const std::string_view below =
      prefix.substr(std::min(prefix.size(), root_prefix.size()));
  for (auto it = objects.lower_bound(below);
       it != objects.end() && it->first.starts_with(below); ++it) {
    const std::string key = std::string(root_prefix) + it->first;
    if (!key.starts_with(prefix) || (!after.empty() && key <= after)) continue;
    if (!request.delimiter.empty()) {
      const size_t slash = key.find(request.delimiter, request.prefix.size());
      if (slash != std::string::npos) {
        std::string common = key.substr(0, slash + request.delimiter.size());
        if (page.prefixes.empty() || page.prefixes.back() != common) {
          page.prefixes.push_back(std::move(common));
        }
        continue;
      }
    }
    page.objects.push_back(entry_of(key, it->second));
  }
  return page;
}

}  // namespace holdfast
