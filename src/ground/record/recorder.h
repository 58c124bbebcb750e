// Recorder: records what this process does for checkpoints and how long it
// takes. It keeps a bounded list of recent phases, and sums over all phases. It
// is always on.
//
//   {
//     const PhaseScope scope(Phase::kWrite, file_name, byte_count);
//     ... the write ...
//   }
//
// An event costs two clock reads and one short lock, so it covers a chunk, a
// batch or more, never an element. The last kEventsKept events are kept. If
// there is a trace file (outputs.h), more events are kept until they are
// written.
// Thread-safety: any thread; after fork() the child continues by itself.
// Ownership: the process's, never destroyed. Units: bytes; nanoseconds of the
// steady clock. Errors: none; an event is dropped when memory is short.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

enum class Phase : uint8_t {
  kPlan,
  kSnapshot,
  kEncode,  // includes waiting for its turn to be written
  kWrite,
  kSync,
  kMeet,
  kCommit,
  kOpen,
  kRead,  // includes decoding, where a store returns chunks
  kDecode,
  kPlace,  // elements copied or cast to their destination
  kCopy,
  kRequest,
};
inline constexpr int kPhaseCount = 13;
std::string_view PhaseName(Phase phase);

inline constexpr size_t kEventsKept = 4096;
inline constexpr size_t kTracedEventsMax = size_t{1} << 18;

struct PhaseEvent {
  int64_t begun_ns = 0;
  int64_t took_ns = 0;
  int64_t waited_ns = 0;  // of a request: time before its first attempt
  uint64_t byte_count = 0;
  int32_t rank = 0;
  uint32_t thread = 0;  // counted from 1, in order of their first event
  uint16_t attempt_count = 0;  // of a request
  Phase phase = Phase::kPlan;
  // The end of the subject's name, zero-filled.
  std::array<char, 52> subject = {};

  void SetSubject(std::string_view text);
  std::string_view SubjectText() const;
};

// A histogram of the seconds that a phase took, in powers of four from 1 ms.
struct PhaseSums {
  static constexpr int kBuckets = 10;  // the last is unbounded
  std::array<uint64_t, kBuckets> counts = {};
  uint64_t byte_count = 0;
  int64_t total_ns = 0;

  uint64_t event_count() const;
  static double UpperSeconds(int bucket);
};

enum class Count : uint8_t {
  kSaves,
  kLoads,
  kConversions,
  kCopies,
  kFailures,  // of any of these
  kStalls,    // ranks and objects that were reported as late
};
inline constexpr int kCountCount = 6;

inline int64_t SteadyNowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class PhaseScope;

class Recorder {
 public:
  static Recorder& Get();

  void Add(PhaseEvent event);  // fills in the thread
  void Add(Count count, uint64_t more = 1);

  std::array<PhaseSums, kPhaseCount> phase_sums() const;
  uint64_t count(Count count) const;

  // From now on keeps up to kTracedEventsMax events for TakeEvents.
  void KeepForTrace();
  // Returns the events since the last call, oldest first, and how many were
  // lost.
  std::vector<PhaseEvent> TakeEvents(uint64_t& lost_count);

  // An operation in progress, with what is needed to report it.
  struct OpenPhase {
    PhaseEvent event;
    uint64_t offset = 0;
    int64_t named_ns = 0;  // when it was last reported as late
  };
  // Returns the operations that are late. Each is returned again only after a
  // growing interval.
  std::vector<OpenPhase> TakeLate(int64_t now_ns);

 private:
  friend class PhaseScope;
  friend struct RecorderFork;
  Recorder() = default;
  void Enter(PhaseScope& scope);
  void Leave(PhaseScope& scope, PhaseEvent event);
  void AddLocked(PhaseEvent& event);

  mutable std::mutex mutex_;
  std::vector<PhaseEvent> events_;  // a ring
  size_t capacity_ = kEventsKept;
  uint64_t added_count_ = 0;
  uint64_t taken_count_ = 0;
  std::array<PhaseSums, kPhaseCount> sums_;
  std::array<uint64_t, kCountCount> counts_ = {};
  PhaseScope* open_ = nullptr;  // the list of operations that may be late
  uint64_t fork_count_ = 0;     // leading to this process
};

// One phase of this thread, lasting until the end of the scope.
class PhaseScope {
 public:
  // `subject` is borrowed: a file, a leaf, a URL without secrets. An operation
  // that waits for others (reads, writes, syncs) is reported when it is late.
  explicit PhaseScope(Phase phase, std::string_view subject = {},
                      uint64_t byte_count = 0, uint64_t offset = 0);
  ~PhaseScope();
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  friend class Recorder;
  const Phase phase_;
  const std::string_view subject_;
  const uint64_t byte_count_;
  const uint64_t offset_;
  const int64_t begun_ns_;
  int64_t named_ns_ = 0;
  uint64_t fork_count_ = 0;  // when it was added to the list
  PhaseScope* previous_ = nullptr;
  PhaseScope* next_ = nullptr;
};

}  // namespace holdfast
