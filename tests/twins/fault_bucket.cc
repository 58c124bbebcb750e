#include "twins/fault_bucket.h"

#include <algorithm>
#include <utility>

#include "ground/base/status_macros.h"
#include "twins/settle_put.h"

namespace holdfast {
namespace {

constexpr std::string_view kRequestNames[kBucketRequestKinds] = {
    "head",       "get",           "put",          "start_upload",
    "part",       "finish_upload", "abort_upload", "delete",
    "delete_all", "list",          "copy",         "list_uploads"};

// Keeps the uploads of processes that died, because nothing aborts them. Never
// destroyed.
void Bury(std::unique_ptr<Upload> upload) {
  static std::mutex mutex;
  static auto* const buried = new std::vector<std::unique_ptr<Upload>>;
  std::lock_guard lock(mutex);
  buried->push_back(std::move(upload));
}

Status StatusOf(const Status& status) { return status; }
template <typename T>
Status StatusOf(const Result<T>& result) {
  return result.status();
}

std::string RangeText(const GetRequest& request) {
  std::string text = request.key + " " + std::to_string(request.range.offset);
  if (request.range.byte_count == kToEnd) return text + "+";
  return text + "+" + std::to_string(request.range.byte_count);
}

}  // namespace

std::string_view BucketRequestName(BucketRequest kind) {
  return kRequestNames[static_cast<size_t>(kind)];
}

uint64_t BucketCounters::request_count() const {
  uint64_t count = 0;
  for (const uint64_t one : requests) count += one;
  return count;
}

struct FaultBucket::State {
  enum class Fate { kPasses, kFailsBefore, kFailsAfter, kIsDead };

  // Counts a request and decides its fate.
  Fate Begin(BucketRequest kind, std::string_view what) {
    std::lock_guard lock(mutex);
    if (died) return Fate::kIsDead;
    ++counters.requests[static_cast<size_t>(kind)];
    ++in_flight;
    counters.in_flight_max = std::max(counters.in_flight_max, in_flight);
    texts.push_back(std::string(BucketRequestName(kind)) + " " +
                    std::string(what));
    const uint64_t ordinal = ++ordinal_count;
    const bool hit =
        (faults.fail_at != 0 && ordinal >= faults.fail_at &&
         ordinal - faults.fail_at < faults.fail_count) ||
        (faults.fail_every != 0 && ordinal % faults.fail_every == 0);
    if (!hit) return Fate::kPasses;
    if (faults.dies) died = true;
    return faults.acts ? Fate::kFailsAfter : Fate::kFailsBefore;
  }

  void End() {
    std::lock_guard lock(mutex);
    --in_flight;
  }

  Status Injected(std::string_view what) const {
    std::lock_guard lock(mutex);
    return Status(faults.code, "injected failure of " + std::string(what));
  }

  bool resends() const {
    std::lock_guard lock(mutex);
    return faults.resends && !died;
  }

  Condition Filter(const Condition& condition) const {
    std::lock_guard lock(mutex);
    return faults.ignores_conditions ? Condition::None() : condition;
  }

  void AddRoundTrip() {
    std::lock_guard lock(mutex);
    if (!died) ++counters.round_trips;
  }

  void AddBytes(uint64_t BucketCounters::* counter, uint64_t byte_count) {
    std::lock_guard lock(mutex);
    counters.*counter += byte_count;
  }

  // Makes one request. `act` performs it. `again` returns the answer to the
  // second sending of a request that took effect.
  template <typename T>
  T Run(BucketRequest kind, std::string_view key, std::string_view what,
        const std::function<T()>& act, const std::function<T()>& again) {
    const Fate fate = Begin(kind, what);
    if (fate == Fate::kIsDead) {
      return Status(StatusCode::kUnavailable,
                    "injected death before " + std::string(what));
    }
    T answer = RunCounted<T>(fate, kind, key, what, act, again);
    End();
    return answer;
  }

  template <typename T>
  T RunCounted(Fate fate, BucketRequest kind, std::string_view key,
               std::string_view what, const std::function<T()>& act,
               const std::function<T()>& again) {
    Hook called;
    {
      std::lock_guard lock(mutex);
      called = hook;
    }
    if (called) HF_RETURN_IF_ERROR(called(kind, key));
    if (fate == Fate::kPasses) return act();
    if (fate == Fate::kFailsBefore) {
      return resends() ? act() : T(Injected(what));
    }
    const T lost = act();
    if (resends()) return StatusOf(lost).ok() ? again() : act();
    return Injected(what);
  }

  mutable std::mutex mutex;
  BucketFaults faults;
  Hook hook;
  bool died = false;
  uint64_t ordinal_count = 0;
  int in_flight = 0;
  BucketCounters counters;
  std::vector<std::string> texts;
};

class FaultBucket::FaultUpload : public Upload {
 public:
  FaultUpload(std::shared_ptr<State> state, std::unique_ptr<Upload> inner,
              std::string key)
      : state_(std::move(state)),
        inner_(std::move(inner)),
        key_(std::move(key)) {}

  ~FaultUpload() override {
    if (!is_over_) Abort();
    if (!is_over_) Bury(std::move(inner_));
  }

  Status Part(uint64_t index, std::span<const std::string_view> pieces,
              bool is_last) override {
    state_->AddRoundTrip();
    state_->AddBytes(&BucketCounters::written_bytes, TotalBytes(pieces));
    return state_->Run<Status>(
        BucketRequest::kPart, key_, key_ + " " + std::to_string(index),
        [&] { return inner_->Part(index, pieces, is_last); },
        [] { return Status(); });
  }

  Result<std::string> Finish(const Condition& condition) override {
    state_->AddRoundTrip();
    Result<std::string> version = std::string();
    const auto act = [&] {
      version = inner_->Finish(state_->Filter(condition));
      if (version.ok()) is_over_ = true;
      return version;
    };
    // Servers answer a second Finish with the success of the first.
    return state_->Run<Result<std::string>>(BucketRequest::kFinishUpload, key_,
                                            key_, act, [&] { return version; });
  }

  void Abort() override {
    const auto act = [&] {
      inner_->Abort();
      is_over_ = true;
      return Status();
    };
    (void)state_->Run<Status>(BucketRequest::kAbortUpload, key_, key_, act,
                              act);
  }

 private:
  const std::shared_ptr<State> state_;
  std::unique_ptr<Upload> inner_;
  const std::string key_;
  bool is_over_ = false;
};

FaultBucket::FaultBucket(std::shared_ptr<Bucket> inner, BucketFaults faults)
    : inner_(std::move(inner)), state_(std::make_shared<State>()) {
  state_->faults = faults;
}

void FaultBucket::SetFaults(BucketFaults faults) {
  std::lock_guard lock(state_->mutex);
  state_->faults = faults;
  state_->died = false;
  state_->ordinal_count = 0;
  state_->texts.clear();
}

void FaultBucket::SetHook(Hook hook) {
  std::lock_guard lock(state_->mutex);
  state_->hook = std::move(hook);
}

bool FaultBucket::died() const {
  std::lock_guard lock(state_->mutex);
  return state_->died;
}

BucketCounters FaultBucket::counters() const {
  std::lock_guard lock(state_->mutex);
  return state_->counters;
}

void FaultBucket::ResetCounters() {
  std::lock_guard lock(state_->mutex);
  state_->counters = {};
}

std::vector<std::string> FaultBucket::requests() const {
  std::lock_guard lock(state_->mutex);
  return state_->texts;
}

const BucketTraits& FaultBucket::traits() const { return inner_->traits(); }

std::string FaultBucket::UrlOf(std::string_view key) const {
  return inner_->UrlOf(key);
}

Result<ObjectEntry> FaultBucket::Head(std::string_view key) {
  state_->AddRoundTrip();
  const auto act = [&] { return inner_->Head(key); };
  return state_->Run<Result<ObjectEntry>>(BucketRequest::kHead, key, key, act,
                                          act);
}

std::vector<Result<GetResult>> FaultBucket::Get(
    std::span<const GetRequest> requests, const CancelToken* cancel) {
  if (!requests.empty()) state_->AddRoundTrip();
  std::vector<Result<GetResult>> results;
  for (const GetRequest& request : requests) {
    const auto act = [&] { return inner_->Get({&request, 1}, cancel).front(); };
    results.push_back(state_->Run<Result<GetResult>>(
        BucketRequest::kGet, request.key, RangeText(request), act, act));
    if (!results.back().ok()) continue;
    state_->AddBytes(&BucketCounters::read_bytes,
                     results.back()->bytes.size() + request.target.size());
  }
  return results;
}

Result<std::string> FaultBucket::Put(std::string_view key,
                                     std::span<const std::string_view> pieces,
                                     const Condition& condition) {
  state_->AddRoundTrip();
  state_->AddBytes(&BucketCounters::written_bytes, TotalBytes(pieces));
  const auto act = [&] {
    return inner_->Put(key, pieces, state_->Filter(condition));
  };
  const auto again = [&]() -> Result<std::string> {
    Result<std::string> version = act();
    if (version.status().code() != StatusCode::kFailedPrecondition) {
      return version;
    }
    return SettlePut(*inner_, key, pieces, version.status());
  };
  return state_->Run<Result<std::string>>(BucketRequest::kPut, key, key, act,
                                          again);
}

Result<std::unique_ptr<Upload>> FaultBucket::StartUpload(std::string_view key) {
  state_->AddRoundTrip();
  // The upload's id is in the answer, so a client that loses the answer can
  // neither use nor abort the upload.
  using Started = Result<std::shared_ptr<std::unique_ptr<Upload>>>;
  std::vector<std::unique_ptr<Upload>> lost;
  const auto act = [&]() -> Started {
    HF_ASSIGN_OR_RETURN(std::unique_ptr<Upload> upload,
                        inner_->StartUpload(key));
    lost.push_back(std::move(upload));
    return std::make_shared<std::unique_ptr<Upload>>();
  };
  const Started started =
      state_->Run<Started>(BucketRequest::kStartUpload, key, key, act, act);
  std::unique_ptr<Upload> upload;
  if (started.ok()) {
    upload = std::move(lost.back());
    lost.pop_back();
  }
  for (std::unique_ptr<Upload>& other : lost) Bury(std::move(other));
  if (!started.ok()) return started.status();
  return std::unique_ptr<Upload>(std::make_unique<FaultUpload>(
      state_, std::move(upload), std::string(key)));
}

uint64_t FaultBucket::part_bytes(uint64_t index) const {
  return inner_->part_bytes(index);
}

Status FaultBucket::Delete(std::string_view key, const Condition& condition) {
  state_->AddRoundTrip();
  const auto act = [&] {
    return inner_->Delete(key, state_->Filter(condition));
  };
  // A delete that is sent again finds nothing, which counts as success.
  return state_->Run<Status>(BucketRequest::kDelete, key, key, act,
                             [] { return Status(); });
}

Status FaultBucket::DeleteAll(std::span<const std::string> keys) {
  state_->AddRoundTrip();
  const std::string first = keys.empty() ? "" : keys.front();
  const auto act = [&] { return inner_->DeleteAll(keys); };
  return state_->Run<Status>(BucketRequest::kDeleteAll, first,
                             std::to_string(keys.size()) + " keys, " + first,
                             act, act);
}

Result<ListPage> FaultBucket::List(const ListRequest& request) {
  state_->AddRoundTrip();
  const auto act = [&] { return inner_->List(request); };
  return state_->Run<Result<ListPage>>(
      BucketRequest::kList, request.prefix,
      request.prefix + (request.delimiter.empty() ? "*" : ""), act, act);
}

Result<std::string> FaultBucket::Copy(std::string_view source,
                                      std::string_view target,
                                      const Condition& condition,
                                      const std::string& source_version) {
  state_->AddRoundTrip();
  const auto act = [&] {
    return inner_->Copy(source, target, state_->Filter(condition),
                        source_version);
  };
  return state_->Run<Result<std::string>>(
      BucketRequest::kCopy, target,
      std::string(source) + " " + std::string(target), act, act);
}

Result<std::vector<UnfinishedUpload>> FaultBucket::ListUploads(
    std::string_view prefix) {
  state_->AddRoundTrip();
  const auto act = [&] { return inner_->ListUploads(prefix); };
  return state_->Run<Result<std::vector<UnfinishedUpload>>>(
      BucketRequest::kListUploads, prefix, prefix, act, act);
}

Status FaultBucket::AbortUpload(const UnfinishedUpload& upload) {
  state_->AddRoundTrip();
  const auto act = [&] { return inner_->AbortUpload(upload); };
  return state_->Run<Status>(BucketRequest::kAbortUpload, upload.key,
                             upload.key, act, act);
}

int64_t FaultBucket::ServerTimeNs() const { return inner_->ServerTimeNs(); }

}  // namespace holdfast
