// FaultBucket: wraps a Bucket, counts its requests, and fails on request, so
// that callers can be tested at each request that may fail.
//
// Requests count from 1: each call, each Get of a batch, each part of an upload
// and its end. A batch of Gets is one round trip. Cleaning up the uploads of a
// dead process is left to the next process: after its death nothing reaches the
// wrapped bucket, not even from destructors.
// Thread-safety: any thread; which request is the k-th is determined only when
// one thread works. Ownership: shares the wrapped bucket. Units: bytes.
// Errors: those of the wrapped bucket, and injected ones, whose messages
// contain "injected".
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "stores/cloud/bucket.h"

namespace holdfast {

enum class BucketRequest : uint8_t {
  kHead,
  kGet,
  kPut,
  kStartUpload,
  kPart,
  kFinishUpload,
  kAbortUpload,
  kDelete,
  kDeleteAll,
  kList,
  kCopy,
  kListUploads,
};
inline constexpr size_t kBucketRequestKinds = 12;
// Returns "head", "get", "put", "start_upload", …
std::string_view BucketRequestName(BucketRequest kind);

struct BucketFaults {
  // This request fails; 0 means none. The next `fail_count - 1` requests fail
  // too.
  uint64_t fail_at = 0;
  uint64_t fail_count = 1;
  // Every n-th request fails; 0 means none.
  uint64_t fail_every = 0;
  StatusCode code = StatusCode::kUnavailable;
  // The failing request takes effect, and only its answer is lost.
  bool acts = false;
  // The process dies at that request: all later requests fail and do nothing.
  bool dies = false;
  // A failed request is sent again, as an HTTP client does, and the caller sees
  // the second answer. (Sending a part, a copy or a list twice is harmless; a
  // conditional write is settled as settle_put.h says.)
  bool resends = false;
  // The server ignores conditions.
  bool ignores_conditions = false;
};

struct BucketCounters {
  std::array<uint64_t, kBucketRequestKinds> requests{};
  uint64_t round_trips = 0;
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  int in_flight_max = 0;  // concurrent calls; each Get of a batch counts

  uint64_t of(BucketRequest kind) const {
    return requests[static_cast<size_t>(kind)];
  }
  uint64_t request_count() const;
};

class FaultBucket : public Bucket {
 public:
  // Called before a request takes effect, on the caller's thread. It may wait.
  // If it fails, the request fails with its Status. It is not called after the
  // process has died.
  using Hook = std::function<Status(BucketRequest kind, std::string_view key)>;

  explicit FaultBucket(std::shared_ptr<Bucket> inner, BucketFaults faults = {});

  // Counts requests from 1 again, and revives the process.
  void SetFaults(BucketFaults faults);
  void SetHook(Hook hook);
  bool died() const;
  BucketCounters counters() const;
  void ResetCounters();
  // Returns the requests since SetFaults, in order: "put a/b", "get a/b 0+100",
  // "list a/", …
  std::vector<std::string> requests() const;

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
  Result<BucketAccess> Access() override { return inner_->Access(); }

 private:
  class FaultUpload;
  struct State;

  const std::shared_ptr<Bucket> inner_;
  const std::shared_ptr<State> state_;
};

}  // namespace holdfast
