// Watchdog: while calls are in progress, reports late operations on standard
// error and makes the calls publish their state.
//
// It uses two threads, because the disk to which one of them publishes may be
// the problem that the other one must report. They start with the first call
// that needs them, and end some seconds after the last. If the system provides
// no threads, nothing is watched. With HOLDFAST_LOG=quiet nothing is reported.
// Thread-safety: any thread. After fork() the child starts its own threads when
// it needs them. Ownership: the process's, never destroyed.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

class CallRecord;

// Writes one line on standard error, "holdfast: ...", and counts a stall.
void SayLate(std::string_view text);
// Replaces standard error; null restores it.
void SetSayLateForTest(std::function<void(const std::string& line)> say);

class Watchdog {
 public:
  static Watchdog& Get();
  void Want(CallRecord* call);
  // After this returns, the threads no longer use `call`.
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
