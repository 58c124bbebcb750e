#include "ground/record/recorder.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <new>

#include "ground/record/call_record.h"

namespace holdfast {
namespace {

constexpr std::array<std::string_view, kPhaseCount> kPhaseNames = {
    "plan", "snapshot", "encode", "write", "sync", "meet",   "commit",
    "open", "read",     "decode", "place", "copy", "request"};

constexpr int64_t kLateNs = 3'000'000'000;
// An operation is late after this many times the average duration.
constexpr int64_t kLateFactor = 10;

bool MayBeLate(Phase phase) {
  return phase == Phase::kRead || phase == Phase::kWrite ||
         phase == Phase::kSync || phase == Phase::kCopy;
}

uint32_t ThreadNumber() {
  static std::atomic<uint32_t> next{1};
  static thread_local const uint32_t mine =
      next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

}  // namespace

// Prepares the recorder for a forked child. The mutex is locked during the
// fork, so that no other thread holds it in the child. Other threads'
// operations do not exist in the child, nor do the stacks that hold these
// operations.
struct RecorderFork {
  static void Before() { Recorder::Get().mutex_.lock(); }
  static void InParent() { Recorder::Get().mutex_.unlock(); }
  static void InChild() {
    Recorder& recorder = Recorder::Get();
    recorder.open_ = nullptr;
    ++recorder.fork_count_;
    recorder.mutex_.unlock();
  }
};

std::string_view PhaseName(Phase phase) {
  return kPhaseNames[static_cast<size_t>(phase)];
}

void PhaseEvent::SetSubject(std::string_view text) {
  if (text.size() > subject.size()) {
    text.remove_prefix(text.size() - subject.size());
  }
  subject.fill('\0');
  std::copy(text.begin(), text.end(), subject.begin());
}

std::string_view PhaseEvent::SubjectText() const {
  const std::string_view all(subject.data(), subject.size());
  return all.substr(0, all.find('\0'));
}

uint64_t PhaseSums::event_count() const {
  uint64_t sum = 0;
  for (const uint64_t count : counts) sum += count;
  return sum;
}

double PhaseSums::UpperSeconds(int bucket) {
  return 0.001 * static_cast<double>(uint64_t{1} << (2 * bucket));
}

Recorder& Recorder::Get() {
  // Not allocated on the heap: the first caller may be a destructor that runs
  // out of memory.
  alignas(Recorder) static char storage[sizeof(Recorder)];
  static auto* const recorder = [] {
    auto* const made = new (storage) Recorder;
    ::pthread_atfork(&RecorderFork::Before, &RecorderFork::InParent,
                     &RecorderFork::InChild);
    return made;
  }();
  return *recorder;
}

void Recorder::AddLocked(PhaseEvent& event) {
  PhaseSums& sums = sums_[static_cast<size_t>(event.phase)];
  int bucket = 0;
  for (int64_t bound_ns = 1'000'000;
       event.took_ns > bound_ns && bucket + 1 < PhaseSums::kBuckets;
       bound_ns *= 4) {
    ++bucket;
  }
  ++sums.counts[static_cast<size_t>(bucket)];
  sums.byte_count += event.byte_count;
  sums.total_ns += event.took_ns;
  const size_t place = added_count_ % capacity_;
  if (place >= events_.size()) {
    try {
      events_.resize(place + 1);
    } catch (const std::bad_alloc&) {
      return;
    }
  }
  events_[place] = event;
  ++added_count_;
}

void Recorder::Add(PhaseEvent event) {
  event.thread = ThreadNumber();
  const std::lock_guard lock(mutex_);
  AddLocked(event);
}

void Recorder::Add(Count count, uint64_t more) {
  const std::lock_guard lock(mutex_);
  counts_[static_cast<size_t>(count)] += more;
}

std::array<PhaseSums, kPhaseCount> Recorder::phase_sums() const {
  const std::lock_guard lock(mutex_);
  return sums_;
}

uint64_t Recorder::count(Count count) const {
  const std::lock_guard lock(mutex_);
  return counts_[static_cast<size_t>(count)];
}

void Recorder::KeepForTrace() {
  const std::lock_guard lock(mutex_);
  if (capacity_ == kTracedEventsMax) return;
  events_.clear();
  capacity_ = kTracedEventsMax;
  added_count_ = taken_count_ = 0;
}

std::vector<PhaseEvent> Recorder::TakeEvents(uint64_t& lost_count) {
  const std::lock_guard lock(mutex_);
  const uint64_t first =
      std::max(taken_count_, added_count_ > capacity_ ? added_count_ - capacity_
                                                      : uint64_t{0});
  lost_count = first - taken_count_;
  std::vector<PhaseEvent> taken;
  taken.reserve(added_count_ - first);
  for (uint64_t i = first; i < added_count_; ++i) {
    taken.push_back(events_[i % capacity_]);
  }
  taken_count_ = added_count_;
  return taken;
}

std::vector<Recorder::OpenPhase> Recorder::TakeLate(int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  std::vector<OpenPhase> late;
  for (PhaseScope* scope = open_; scope != nullptr; scope = scope->next_) {
    const PhaseSums& sums = sums_[static_cast<size_t>(scope->phase_)];
    const auto event_count = static_cast<int64_t>(sums.event_count());
    const int64_t usual_ns =
        event_count == 0 ? 0 : sums.total_ns / event_count * kLateFactor;
    const int64_t took_ns = now_ns - scope->begun_ns_;
    if (took_ns < std::max(kLateNs, usual_ns)) continue;
    const int64_t told_ns = scope->named_ns_ - scope->begun_ns_;
    if (scope->named_ns_ != 0 && took_ns < 3 * told_ns) continue;
    scope->named_ns_ = now_ns;
    OpenPhase& open = late.emplace_back();
    open.event.begun_ns = scope->begun_ns_;
    open.event.took_ns = took_ns;
    open.event.byte_count = scope->byte_count_;
    open.event.phase = scope->phase_;
    open.event.SetSubject(scope->subject_);
    open.offset = scope->offset_;
  }
  return late;
}

void Recorder::Enter(PhaseScope& scope) {
  const std::lock_guard lock(mutex_);
  scope.fork_count_ = fork_count_;
  scope.next_ = open_;
  if (open_ != nullptr) open_->previous_ = &scope;
  open_ = &scope;
}

void Recorder::Leave(PhaseScope& scope, PhaseEvent event) {
  event.thread = ThreadNumber();
  const std::lock_guard lock(mutex_);
  AddLocked(event);
  if (!MayBeLate(scope.phase_) || scope.fork_count_ != fork_count_) return;
  if (scope.next_ != nullptr) scope.next_->previous_ = scope.previous_;
  if (scope.previous_ != nullptr) {
    scope.previous_->next_ = scope.next_;
  } else {
    open_ = scope.next_;
  }
}

PhaseScope::PhaseScope(Phase phase, std::string_view subject,
                       uint64_t byte_count, uint64_t offset)
    : phase_(phase),
      subject_(subject),
      byte_count_(byte_count),
      offset_(offset),
      begun_ns_(SteadyNowNs()) {
  if (MayBeLate(phase)) Recorder::Get().Enter(*this);
}

PhaseScope::~PhaseScope() {
  PhaseEvent event;
  event.begun_ns = begun_ns_;
  event.took_ns = SteadyNowNs() - begun_ns_;
  event.byte_count = byte_count_;
  event.phase = phase_;
  if (const CallRecord* call = CallRecord::OfThread())
    event.rank = call->rank();
  event.SetSubject(subject_);
  Recorder::Get().Leave(*this, event);
}

}  // namespace holdfast
