// ReadOnlyBucket: a Bucket whose every write is refused in the words of its
// kind.
//
// Thread-safety, ownership, errors: as Bucket; of writes Unimplemented.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cloud/bucket.h"

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
  // `kind`: "web servers", say, which are only read from.
  explicit ReadOnlyBucket(std::string_view kind) : kind_(kind) {}

 private:
  Status Refuse(std::string_view verb, std::string_view key) const {
    return UnimplementedError(std::string(verb) + " " + UrlOf(key) + ": " +
                              std::string(kind_) + " are only read from");
  }

  const std::string_view kind_;
};

}  // namespace holdfast
