#include "ground/record/call_record.h"

#include <new>
#include <utility>

#include "ground/record/outputs.h"
#include "ground/record/watchdog.h"

namespace holdfast {
namespace {

thread_local CallRecord* call_of_thread = nullptr;

// A phase with fewer bytes than this ends before anyone could look.
constexpr uint64_t kWatchedBytesMin = 32 << 20;

double SecondsSince(int64_t begun_ns, int64_t now_ns) {
  return static_cast<double>(now_ns - begun_ns) / 1e9;
}

Count CountOf(CallKind kind) {
  switch (kind) {
    case CallKind::kSave:
      return Count::kSaves;
    case CallKind::kLoad:
      return Count::kLoads;
    case CallKind::kConvert:
      return Count::kConversions;
    case CallKind::kCopy:
      return Count::kCopies;
  }
  return Count::kSaves;
}

}  // namespace

CallRecord* CallRecord::OfThread() { return call_of_thread; }

CallRecord::CallRecord(CallKind kind, std::string path)
    : kind_(kind),
      path_(std::move(path)),
      begun_ns_(SteadyNowNs()),
      phase_begun_ns_(begun_ns_) {
  PrepareOutputs();
}

CallRecord::~CallRecord() { Finish(true); }

void CallRecord::SetRank(int64_t rank, int64_t rank_count) {
  rank_.store(rank, std::memory_order_relaxed);
  SetOutputRank(rank);
  const std::lock_guard lock(mutex_);
  rank_count_ = rank_count;
}

void CallRecord::StartPhase(std::string_view phase, uint64_t total_bytes) {
  bool must_watch = false;
  {
    const std::lock_guard lock(mutex_);
    if (is_last_phase_) return;
    phase_ = phase;
    phase_begun_ns_ = SteadyNowNs();
    total_bytes_ = total_bytes;
    done_bytes_.store(0, std::memory_order_relaxed);
    must_watch = !is_watched_ && !is_ended_ && total_bytes >= kWatchedBytesMin;
    is_watched_ |= must_watch;
  }
  if (must_watch) Watchdog::Get().Want(this);
}

void CallRecord::StartLastPhase(std::string_view phase, uint64_t total_bytes) {
  StartPhase(phase, total_bytes);
  const std::lock_guard lock(mutex_);
  is_last_phase_ = true;
}

CallState CallRecord::State() const {
  const int64_t now_ns = SteadyNowNs();
  CallState state;
  state.rank = rank();
  const std::lock_guard lock(mutex_);
  state.rank_count = rank_count_;
  state.phase = meeting_.empty() ? phase_ : meeting_;
  state.phase_seconds = SecondsSince(
      meeting_.empty() ? phase_begun_ns_ : meeting_begun_ns_, now_ns);
  state.total_seconds = SecondsSince(begun_ns_, now_ns);
  state.total_bytes = total_bytes_;
  state.done_bytes = done_bytes_.load(std::memory_order_relaxed);
  return state;
}

void CallRecord::Publish(Publisher publisher) {
  std::function<std::string(int64_t)> other = std::move(publisher.other);
  {
    const std::lock_guard lock(publish_mutex_);
    publisher_ = std::move(publisher);
  }
  const std::lock_guard lock(mutex_);
  other_ = std::move(other);
  // A call of one rank starts no threads here: if it writes little, it is done
  // before anyone could look. StartPhase starts them for a large phase.
  if (is_ended_ || is_watched_ || rank_count_ == 1) return;
  is_watched_ = true;
  Watchdog::Get().Want(this);
}

void CallRecord::StopPublishing() {
  const std::lock_guard lock(publish_mutex_);
  if (published_ns_ != 0 && publisher_.withdraw) publisher_.withdraw();
  publisher_ = {};
  published_ns_ = 0;
  const std::lock_guard state_lock(mutex_);
  other_ = nullptr;
}

void CallRecord::PublishIfDue(int64_t now_ns) {
  const std::lock_guard lock(publish_mutex_);
  if (!publisher_.publish) return;
  const bool is_due =
      published_ns_ == 0
          ? SecondsSince(begun_ns_, now_ns) >= publisher_.first_seconds
          : SecondsSince(published_ns_, now_ns) >= publisher_.every_seconds;
  if (!is_due) return;
  published_ns_ = now_ns;
  publisher_.publish(State());
}

std::string CallRecord::OtherRank(int64_t rank) {
  std::function<std::string(int64_t)> other;
  {
    const std::lock_guard lock(mutex_);
    other = other_;
  }
  return other ? other(rank) : std::string();
}

// Allocates no memory: it may run while a bad_alloc is being handled.
void CallRecord::Finish(bool has_failed) {
  bool was_watched = false;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_ended_, true)) return;
    was_watched = is_watched_;
  }
  if (was_watched) Watchdog::Get().Unwant(this);
  StopPublishing();
  Recorder::Get().Add(CountOf(kind_));
  if (has_failed) Recorder::Get().Add(Count::kFailures);
  WriteOutputs();
}

OnCall::OnCall(CallRecord* call) : before_(call_of_thread) {
  if (call != nullptr) call_of_thread = call;
}
OnCall::~OnCall() { call_of_thread = before_; }

MeetScope::MeetScope(std::string_view phase, std::string_view file)
    : scope_(Phase::kMeet, file), call_(call_of_thread) {
  if (call_ == nullptr) return;
  const std::lock_guard lock(call_->mutex_);
  call_->meeting_ = "meet: " + std::string(phase);
  call_->meeting_begun_ns_ = SteadyNowNs();
}

MeetScope::~MeetScope() {
  if (call_ == nullptr) return;
  const std::lock_guard lock(call_->mutex_);
  call_->meeting_.clear();
}

std::shared_ptr<CallRecord> BeginCallRecord(CallKind kind,
                                            const std::string& path) {
  if (call_of_thread != nullptr) return nullptr;
  try {
    return std::make_shared<CallRecord>(kind, path);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace holdfast
