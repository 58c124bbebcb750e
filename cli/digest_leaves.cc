#include "cli/digest_leaves.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <thread>

namespace holdfast::cli {
namespace {

class LeafDigester {
 public:
  LeafDigester(const Checkpoint& checkpoint, std::span<const size_t> leaves,
               const DigestOptions& options)
      : checkpoint_(checkpoint),
        leaves_(leaves),
        options_(options),
        results_(leaves.size(), CancelledError("stopped")) {}

  void Run() {
    const size_t cpu_count = std::max(1u, std::thread::hardware_concurrency());
    const size_t wanted = options_.threads > 0
                              ? static_cast<size_t>(options_.threads)
                              : cpu_count;
    std::vector<std::jthread> threads;
    try {
      for (size_t i = 1; i < std::min(wanted, leaves_.size()); ++i) {
        threads.emplace_back([this] { TakeLeaves(); });
      }
    } catch (const std::exception&) {
      // The threads that could be started read all leaves.
    }
    TakeLeaves();
  }

  std::vector<Result<std::string>> TakeResults() { return std::move(results_); }

 private:
  void TakeLeaves() {
    for (size_t i = next_++; i < leaves_.size(); i = next_++) {
      if (options_.cancel != nullptr && options_.cancel->load()) return;
      const uint64_t bytes = checkpoint_.leaves()[leaves_[i]].decoded_bytes;
      const uint64_t held = std::min(bytes, options_.ram_bytes_max);
      Acquire(held);
      try {
        results_[i] = DigestLeaf(checkpoint_, leaves_[i]);
      } catch (const std::bad_alloc&) {
        results_[i] = out_of_memory_;
      }
      Release(held, bytes);
    }
  }

  void Acquire(uint64_t bytes) {
    std::unique_lock lock(mutex_);
    released_.wait(lock, [&] {
      return bytes <= options_.ram_bytes_max - in_flight_bytes_;
    });
    in_flight_bytes_ += bytes;
  }

  void Release(uint64_t held, uint64_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      in_flight_bytes_ -= held;
      done_bytes_ += bytes;
      if (options_.done) options_.done(done_bytes_);
    }
    released_.notify_all();
  }

  const Checkpoint& checkpoint_;
  const std::span<const size_t> leaves_;
  const DigestOptions& options_;
  std::vector<Result<std::string>> results_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  std::condition_variable released_;
  uint64_t in_flight_bytes_ = 0;  // guarded by mutex_
  uint64_t done_bytes_ = 0;       // guarded by mutex_
  // Made in advance, because later there may be no memory for it.
  const Status out_of_memory_ =
      ResourceExhaustedError("the process is out of memory");
};

}  // namespace

std::vector<Result<std::string>> DigestLeaves(const Checkpoint& checkpoint,
                                              std::span<const size_t> leaves,
                                              const DigestOptions& options) {
  LeafDigester digester(checkpoint, leaves, options);
  digester.Run();
  return digester.TakeResults();
}

}  // namespace holdfast::cli
