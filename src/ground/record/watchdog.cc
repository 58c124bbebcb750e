#include "ground/record/watchdog.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>

#include "ground/base/no_throw.h"
#include "ground/base/start_threads.h"
#include "ground/record/call_record.h"
#include "ground/record/recorder.h"

namespace holdfast {
namespace {

constexpr std::chrono::milliseconds kRound{250};
// A thread ends after this many rounds without a call.
constexpr int kIdleRoundsMax = 20;

std::mutex say_mutex;
std::function<void(const std::string&)> say_for_test;

bool IsQuiet() {
  const char* const log = std::getenv("HOLDFAST_LOG");
  return log != nullptr && std::string_view(log) == "quiet";
}

std::string LateText(const Recorder::OpenPhase& open) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f s",
                static_cast<double>(open.event.took_ns) / 1e9);
  std::string text(PhaseName(open.event.phase));
  text += " of " + std::string(open.event.SubjectText());
  if (open.event.byte_count > 0) {
    text += " at " + std::to_string(open.offset) + " (" +
            std::to_string(open.event.byte_count) + " bytes)";
  }
  return text + " has taken " + seconds + " and is not done";
}

void NameLate() {
  for (const auto& open : Recorder::Get().TakeLate(SteadyNowNs())) {
    SayLate(LateText(open));
  }
}

}  // namespace

// A forked child has none of the threads, and its copies of the mutexes may be
// locked forever.
struct WatchdogFork {
  static void InChild() {
    new (&Watchdog::Get()) Watchdog;
    new (&say_mutex) std::mutex;
  }
};

void SayLate(std::string_view text) {
  Recorder::Get().Add(Count::kStalls);
  const std::string line = "holdfast: " + std::string(text) + "\n";
  const std::lock_guard lock(say_mutex);
  if (say_for_test) {
    say_for_test(line);
  } else if (!IsQuiet()) {
    // In a single write, so that lines of several processes do not mix.
    (void)!::write(STDERR_FILENO, line.data(), line.size());
  }
}

void SetSayLateForTest(std::function<void(const std::string& line)> say) {
  const std::lock_guard lock(say_mutex);
  say_for_test = std::move(say);
}

Watchdog& Watchdog::Get() {
  static auto* const watchdog = [] {
    auto* const made = new Watchdog;
    ::pthread_atfork(nullptr, nullptr, [] { WatchdogFork::InChild(); });
    return made;
  }();
  return *watchdog;
}

void Watchdog::Want(CallRecord* call) {
  const std::lock_guard lock(mutex_);
  // If memory is short, the call is not watched.
  (void)CatchBadAlloc([&] {
    calls_.push_back(call);
    StartThreads();
    return Status();
  });
}

void Watchdog::Unwant(CallRecord* call) {
  std::unique_lock lock(mutex_);
  std::erase(calls_, call);
  changed_.wait(lock, [&] { return publishing_ != call; });
}

template <typename Round>
void Watchdog::RunRounds(bool& is_running, const Round& round) {
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  for (int idle_rounds = 0;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kRound, [] { return false; });
      idle_rounds = calls_.empty() ? idle_rounds + 1 : 0;
      if (idle_rounds > kIdleRoundsMax) {
        is_running = false;
        return;
      }
    }
    (void)CatchBadAlloc([&] {
      round();
      return Status();
    });
  }
}

// REQUIRES: mutex_ is held.
void Watchdog::StartThreads() {
  const auto start = [&](bool& is_running, const auto& round) {
    if (is_running) return;
    auto thread = TryStartThread(
        [this, &is_running, round] { RunRounds(is_running, round); });
    if (!thread) return;
    is_running = true;
    thread->detach();
  };
  start(is_looking_, [] { NameLate(); });
  start(is_publishing_, [this] { PublishCalls(); });
}

// Publishes each call without holding the lock. Meanwhile Unwant waits, so that
// the call is not destroyed.
void Watchdog::PublishCalls() {
  std::unique_lock lock(mutex_);
  for (size_t i = 0; i < calls_.size(); ++i) {
    publishing_ = calls_[i];
    lock.unlock();
    (void)CatchBadAlloc([&] {
      publishing_->PublishIfDue(SteadyNowNs());
      return Status();
    });
    lock.lock();
    publishing_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace holdfast
