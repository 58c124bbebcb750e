// MemoryBucket: a Bucket in this process's memory, which tests use instead of a
// server. It can behave like S3 (versions follow content, parts in any order)
// or like Google's store (versions count up, parts in order).
//
// Its clock stands still, except for one nanosecond per change, until a test
// moves it. Uploads keep their parts until they are finished, aborted or
// destroyed; uploads of a process that died (fault_bucket.h) stay.
// Thread-safety: any thread; an upload as bucket.h says. Ownership: owns its
// objects; uploads keep them alive. Units: bytes, nanoseconds since 1970.
// Errors: as in bucket.h; InvalidArgument for requests that real servers
// refuse: bad keys, parts of a wrong size or order, foreign page tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stores/cloud/bucket.h"

namespace holdfast {

struct MemoryBucketOptions {
  std::string name = "memory";  // "mem://<name>/<key>" in messages
  BucketTraits traits;
  uint64_t part_bytes = 5 << 20;
  // If true, versions count changes; otherwise they are digests of the content,
  // so that equal objects have equal versions.
  bool counts_versions = false;
  int page_entry_count_max = 1000;
  uint64_t answer_bytes_max = 64 << 20;  // of a Get without a target
  int64_t start_time_ns = 1'800'000'000'000'000'000;

  // Uploads obey conditions, as Amazon's do (Ceph's do not).
  static MemoryBucketOptions S3Like();
  static MemoryBucketOptions GcsLike();
};

class MemoryBucket : public Bucket {
 public:
  explicit MemoryBucket(
      MemoryBucketOptions options = MemoryBucketOptions::S3Like());

  void SetTimeNs(int64_t time_ns);
  void AdvanceTime(int64_t duration_ns);
  size_t object_count() const;
  // Changes one byte of an object unnoticed by its users, which gives it a new
  // version. REQUIRES: the object exists and is longer than `offset`.
  void Damage(std::string_view key, uint64_t offset);

  const BucketTraits& traits() const override;
  std::string UrlOf(std::string_view key) const override;
  Result<ObjectEntry> Head(std::string_view key) override;
  std::vector<Result<GetResult>> Get(
      std::span<const GetRequest> requests,
      const CancelToken* cancel = nullptr) override;
  Result<std::string> Put(std::string_view key,
                          std::span<const std::string_view> pieces,
                          const Condition& condition = {}) override;
  Result<std::unique_ptr<Upload>> StartUpload(std::string_view key) override;
  uint64_t part_bytes(uint64_t index) const override;
  Status Delete(std::string_view key, const Condition& condition = {}) override;
  Status DeleteAll(std::span<const std::string> keys) override;
  Result<ListPage> List(const ListRequest& request) override;
  Result<std::string> Copy(std::string_view source, std::string_view target,
                           const Condition& condition = {},
                           const std::string& source_version = "") override;
  Result<std::vector<UnfinishedUpload>> ListUploads(
      std::string_view prefix) override;
  Status AbortUpload(const UnfinishedUpload& upload) override;
  int64_t ServerTimeNs() const override;

 private:
  struct Contents;
  class PartUpload;

  Result<GetResult> GetOne(const GetRequest& request) const;

  const std::shared_ptr<Contents> contents_;
};

}  // namespace holdfast
