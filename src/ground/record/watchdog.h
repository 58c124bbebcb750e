// Watchdog: looks at calls that are under way, while there are any: names what
// is late on standard error, and has calls publish their state.
//
// Two threads, since the disk that one of them waits for may be the reason why
// there is something to say. They begin with the first call that is worth it,
// and end some seconds after the last. Where the system gives no thread nobody
// looks. HOLDFAST_LOG=quiet: nothing is said.
// Thread-safety: any thread. After fork() the child has threads of its own when
// it wants some. Ownership: the process's, never destroyed.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

class CallRecord;

// One line on standard error, "holdfast: ...", and one more stall counted.
void SayLate(std::string_view text);
// In place of standard error; null: that again.
void SetSayLateForTest(std::function<void(const std::string& line)> say);

class Watchdog {
 public:
  static Watchdog& Get();
  void Want(CallRecord* call);
  // The threads do not look at it any more.
  void Unwant(CallRecord* call);

 private:
  friend struct WatchdogFork;
  Watchdog() = default;
  void StartThreads();
  template <typename Round>
  void RunRounds(bool& is_running, const Round& round);
  void PublishCalls();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<CallRecord*> calls_;
  CallRecord* publishing_ = nullptr;
  bool is_looking_ = false;
  bool is_publishing_ = false;
};

}  // namespace holdfast
