// FaultBucket: wraps a Bucket, counts what is asked of it, and fails on
// request, so that code above can be tested at each request that may go wrong.
//
// Requests count from 1: each call is one, each Get of a batch, each part of an
// upload and its end. A batch of Get is one round trip. Gathering what a dead
// process left (uploads) is the next process's business: nothing that comes
// after death reaches the wrapped bucket, also not from destructors.
// Thread-safety: any thread; which request is the k-th is only determined when
// one thread works. Ownership: shares the wrapped bucket. Units: bytes.
// Errors: of the wrapped bucket, and the injected ones, whose message has
// "injected".
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
// "head", "get", "put", "start_upload", …
std::string_view BucketRequestName(BucketRequest kind);

struct BucketFaults {
  // This request fails; 0: none. So do the `fail_count - 1` after it.
  uint64_t fail_at = 0;
  uint64_t fail_count = 1;
  // Each n-th request fails; 0: none.
  uint64_t fail_every = 0;
  StatusCode code = StatusCode::kUnavailable;
  // The failing request acts, and only its answer is lost.
  bool acts = false;
  // The process dies with that request: all after it fail and do nothing.
  bool dies = false;
  // A failed request is sent again, as an HTTP client does, and the caller sees
  // the second answer. (A part, a copy and a list may be sent twice without
  // harm; a conditional write is settled as settle_put.h says.)
  bool resends = false;
  // A server that knows no conditions.
  bool ignores_conditions = false;
};

struct BucketCounters {
  std::array<uint64_t, kBucketRequestKinds> requests{};
  uint64_t round_trips = 0;
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  int in_flight_max = 0;  // calls at once; a batch is as many as it has

  uint64_t of(BucketRequest kind) const {
    return requests[static_cast<size_t>(kind)];
  }
  uint64_t request_count() const;
};

class FaultBucket : public Bucket {
 public:
  // Called before a request acts, on the caller's thread; may wait, and a
  // failure is the request's. Not called when the process has died.
  using Hook = std::function<Status(BucketRequest kind, std::string_view key)>;

  explicit FaultBucket(std::shared_ptr<Bucket> inner, BucketFaults faults = {});

  // Counts requests from 1 again, and revives.
  void SetFaults(BucketFaults faults);
  void SetHook(Hook hook);
  bool died() const;
  BucketCounters counters() const;
  void ResetCounters();
  // "put a/b", "get a/b 0+100", "list a/", … in order, since SetFaults.
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
