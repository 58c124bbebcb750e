#include <cassert>
#include <condition_variable>
#include <mutex>

#include "holdfast/orbax/type_handlers.h"

namespace holdfast {
namespace {

class ByteLimiter final : public LimitInFlightBytes {
 public:
  explicit ByteLimiter(int64_t bytes_max)
      : bytes_max_(bytes_max), free_bytes_(bytes_max) {}

  int64_t bytes_max() const override { return bytes_max_; }

  Status WaitForBytes(int64_t requested_bytes) override {
    if (requested_bytes >= bytes_max_) {
      return InvalidArgumentError(
          "Requested more bytes than we reserved space for: " +
          std::to_string(requested_bytes) + " > " + std::to_string(bytes_max_));
    }
    std::unique_lock lock(mutex_);
    released_.wait(lock, [&] { return free_bytes_ > requested_bytes; });
    free_bytes_ -= requested_bytes;
    return Status();
  }

  void ReleaseBytes(int64_t requested_bytes) override {
    const std::lock_guard lock(mutex_);
    free_bytes_ += requested_bytes;
    assert(free_bytes_ <= bytes_max_);
    released_.notify_all();
  }

 private:
  const int64_t bytes_max_;
  std::mutex mutex_;
  std::condition_variable released_;
  int64_t free_bytes_;
};

}  // namespace

Result<std::shared_ptr<LimitInFlightBytes>> LimitInFlightBytes::Make(
    int64_t bytes_max) {
  if (bytes_max <= 0) {
    return InvalidArgumentError("Must provide positive `num_bytes`. Found: " +
                                std::to_string(bytes_max));
  }
  return std::shared_ptr<LimitInFlightBytes>(
      std::make_shared<ByteLimiter>(bytes_max));
}

}  // namespace holdfast
