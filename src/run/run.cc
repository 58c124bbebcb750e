#include "run/run.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

namespace holdfast {
namespace {

int ThreadCount(const RunOptions& options, int requests_in_flight) {
  if (options.thread_count != 0 || requests_in_flight <= 1) {
    return options.thread_count;
  }
  // Threads of a remote read mostly wait, so more of them than CPUs keep the
  // requests in flight that the store can take.
  const int cpu_count = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(cpu_count, std::min(requests_in_flight, kWaitingThreadsMax));
}

}  // namespace

uint64_t PhysicalMemoryBytes() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         sysconf(_SC_PAGE_SIZE);
}

Run::Run(const RunOptions& options, int requests_in_flight)
    : executor_(ThreadCount(options, requests_in_flight)),
      budget_(options.in_flight_bytes_max),
      cancel_(options.cancel),
      progress_fn_(options.progress) {
  for (int i = 0; i < executor_.thread_count(); ++i) {
    contexts_.push_back(std::make_unique<CodecContext>());
    contexts_.back()->set_cancel(&cancel_);
  }
}

void Run::StartPhase(std::string_view phase, uint64_t total_bytes) {
  if (!progress_fn_) return;
  std::lock_guard lock(progress_mutex_);
  progress_ = {phase, 0, total_bytes};
  progress_fn_(progress_);
}

void Run::AddDone(uint64_t byte_count) {
  if (!progress_fn_) return;
  std::lock_guard lock(progress_mutex_);
  progress_.done_bytes += byte_count;
  progress_fn_(progress_);
}

}  // namespace holdfast
