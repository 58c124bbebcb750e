// CallRecord: a save, load, conversion or copy in progress: its rank, its
// phase, and its progress.
//
//   return InCall(CallKind::kSave, path, [&] { return SaveTree(...); });
//
// A call inside another call is a part of the outer call. A thread that works
// for a call is attached to the call's record (OnCall), and events take their
// rank from that record. A separate thread watches calls that run long
// (watchdog.h). A call may publish its state, which is then passed to a
// function about once per interval.
// Thread-safety: any thread. Ownership: shared; the registry holds weak
// pointers.
// Units: bytes, seconds.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ground/record/recorder.h"
#include "holdfast/status.h"

namespace holdfast {

enum class CallKind : uint8_t { kSave, kLoad, kConvert, kCopy };

struct CallState {
  int64_t rank = 0;
  int64_t rank_count = 1;
  std::string phase;
  double phase_seconds = 0;
  double total_seconds = 0;
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
};

class CallRecord {
 public:
  CallRecord(CallKind kind, std::string path);
  // Counts the call and writes the requested outputs (outputs.h), unless End
  // has done so.
  ~CallRecord();
  CallRecord(const CallRecord&) = delete;
  CallRecord& operator=(const CallRecord&) = delete;

  // The call that this thread works for, or null.
  static CallRecord* OfThread();

  void SetRank(int64_t rank, int64_t rank_count);
  int64_t rank() const { return rank_.load(std::memory_order_relaxed); }
  const std::string& path() const { return path_; }

  void StartPhase(std::string_view phase, uint64_t total_bytes);
  // StartPhase, for a phase that other calls do part by part: the phases that
  // they start are ignored, and what they have done is added up.
  void StartLastPhase(std::string_view phase, uint64_t total_bytes);
  void AddDone(uint64_t byte_count) {
    done_bytes_.fetch_add(byte_count, std::memory_order_relaxed);
  }
  CallState State() const;

  struct Publisher {
    double first_seconds = 1;  // after the call began
    double every_seconds = 1;
    std::function<void(const CallState&)> publish;
    std::function<void()> withdraw;  // removes what was published
    // Returns what is known about another rank, as text; may be empty.
    std::function<std::string(int64_t rank)> other;
  };
  // Starts publishing now, or for a call of one rank, at its first phase of at
  // least 32 MiB.
  void Publish(Publisher publisher);
  // Waits for a publication in progress, and withdraws what was published.
  void StopPublishing();
  // For the publishing thread.
  void PublishIfDue(int64_t now_ns);
  std::string OtherRank(int64_t rank);

  // Call once, with the call's outcome.
  void End(const Status& status) { Finish(!status.ok()); }

 private:
  friend class MeetScope;
  void Finish(bool has_failed);

  const CallKind kind_;
  const std::string path_;
  const int64_t begun_ns_;
  std::atomic<int64_t> rank_{0};
  std::atomic<uint64_t> done_bytes_{0};

  mutable std::mutex mutex_;
  int64_t rank_count_ = 1;
  std::string phase_ = "plan";
  bool is_last_phase_ = false;
  std::string meeting_;  // "meet: write" while the rank waits there
  int64_t phase_begun_ns_;
  int64_t meeting_begun_ns_ = 0;
  uint64_t total_bytes_ = 0;
  std::function<std::string(int64_t rank)> other_;
  bool is_ended_ = false;
  bool is_watched_ = false;

  std::mutex publish_mutex_;  // held while it publishes
  Publisher publisher_;
  int64_t published_ns_ = 0;
};

// Marks this thread as working for a call, until the end of the scope. Null
// changes nothing.
class OnCall {
 public:
  explicit OnCall(CallRecord* call);
  ~OnCall();
  OnCall(const OnCall&) = delete;
  OnCall& operator=(const OnCall&) = delete;

 private:
  CallRecord* const before_;
};

// Marks this rank as waiting for others, until the end of the scope.
class MeetScope {
 public:
  MeetScope(std::string_view phase, std::string_view file);
  ~MeetScope();
  MeetScope(const MeetScope&) = delete;
  MeetScope& operator=(const MeetScope&) = delete;

 private:
  PhaseScope scope_;
  CallRecord* const call_;
};

// Returns the record of a call that lasts longer than one scope. Returns null
// if this thread already works for a call, whose record then covers this call
// too, or if memory is short.
std::shared_ptr<CallRecord> BeginCallRecord(CallKind kind,
                                            const std::string& path);

// Runs `work`, which returns a Status or a Result, as one call; returns its
// result.
template <typename Work>
auto InCall(CallKind kind, const std::string& path, const Work& work) {
  const std::shared_ptr<CallRecord> call = BeginCallRecord(kind, path);
  if (call == nullptr) return work();
  const OnCall on(call.get());
  auto result = work();
  if constexpr (std::is_same_v<decltype(result), Status>) {
    call->End(result);
  } else {
    call->End(result.status());
  }
  return result;
}

}  // namespace holdfast
