#include "holdfast/steps/preemption.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <string>

#include "stores/storage/errno_status.h"

namespace holdfast {
namespace {

std::atomic<bool> g_is_preempted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

constexpr int kSignalCount = 65;
// Written before the handler that reads it is installed, and never changed
// after that.
std::array<struct sigaction, kSignalCount> g_previous;
std::array<bool, kSignalCount> g_is_watched;

extern "C" void OnPreemption(int number, siginfo_t* info, void* context) {
  // A signal handler may do no more than set a lock-free flag, and call the
  // previous handler.
  g_is_preempted.store(true);
  const struct sigaction& previous = g_previous[static_cast<size_t>(number)];
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(number, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(number);
  }
}

}  // namespace

Status WatchForPreemption(int signal_number) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (signal_number <= 0 || signal_number >= kSignalCount) {
    return InvalidArgumentError("preemption: no signal " +
                                std::to_string(signal_number));
  }
  const auto index = static_cast<size_t>(signal_number);
  if (g_is_watched[index]) return Status();
  struct sigaction action = {};
  if (::sigaction(signal_number, nullptr, &g_previous[index]) == 0) {
    action.sa_sigaction = OnPreemption;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&action.sa_mask);
    if (::sigaction(signal_number, &action, nullptr) == 0) {
      g_is_watched[index] = true;
      return Status();
    }
  }
  return ErrnoStatus(errno, "preemption: watch for signal",
                     std::to_string(signal_number));
}

bool PreemptionSignalled() { return g_is_preempted.load(); }
void NotePreemption() { g_is_preempted.store(true); }
void ForgetPreemption() { g_is_preempted.store(false); }

}  // namespace holdfast
