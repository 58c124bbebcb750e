#include "ground/run/run.h"

#include <algorithm>
#include <thread>

#include "ground/record/outputs.h"
#include "holdfast/detail/host_memory.h"

namespace holdfast {
namespace {

int ThreadCount(const RunOptions& options, int requests_in_flight) {
  if (options.threads != 0 || requests_in_flight <= 1) {
    return options.threads;
  }
  // Threads that read from a server mostly wait, so having more threads than
  // CPUs keeps as many requests in flight as the store can handle.
  const int cpu_count = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(cpu_count, std::min(requests_in_flight, kWaitingThreadsMax));
}

}  // namespace

Status MemoryNeed::Add(uint64_t byte_count) {
  const uint64_t host_bytes = HostMemoryBytes();
  if (__builtin_add_overflow(byte_count_, byte_count, &byte_count_)) {
    byte_count_ = UINT64_MAX;
  }
  if (byte_count_ <= host_bytes) return Status();
  return ResourceExhaustedError(
      "the tensors take more memory than this process may use (got " +
      std::to_string(host_bytes) + " bytes, want at least " +
      std::to_string(byte_count_) + "); read fewer leaves at a time");
}

Run::Run(const RunOptions& options, int requests_in_flight)
    : executor_(ThreadCount(options, requests_in_flight)),
      budget_(options.memory_bytes),
      cancel_(options.cancel),
      progress_fn_(options.progress) {
  PrepareOutputs();
}

void Run::StartPhase(std::string_view phase, uint64_t total_bytes) {
  if (call_ != nullptr) call_->StartPhase(phase, total_bytes);
  if (!progress_fn_) return;
  std::lock_guard lock(progress_mutex_);
  progress_ = {phase, 0, total_bytes};
  progress_fn_(progress_);
}

void Run::AddDone(uint64_t byte_count) {
  if (call_ != nullptr) call_->AddDone(byte_count);
  if (!progress_fn_) return;
  std::lock_guard lock(progress_mutex_);
  progress_.done_bytes += byte_count;
  progress_fn_(progress_);
}

}  // namespace holdfast
