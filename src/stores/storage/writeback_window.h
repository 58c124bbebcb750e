// WritebackWindow: decides when a growing file has enough new bytes that the
// kernel should start writing them to disk. The sync at the end then has little
// left to wait for. It does no I/O.
//
// Thread-safety: any thread. Units: bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>

namespace holdfast {

class WritebackWindow {
 public:
  struct Range {
    uint64_t offset;
    uint64_t byte_count;
  };

  explicit WritebackWindow(uint64_t window_bytes)
      : window_bytes_(window_bytes) {}

  // Notes that `byte_count` bytes at `offset` were written. Once the bytes
  // noted since the last returned range fill the window, returns the range that
  // contains them all.
  std::optional<Range> Note(uint64_t offset, uint64_t byte_count) {
    std::lock_guard lock(mutex_);
    begin_ = noted_bytes_ == 0 ? offset : std::min(begin_, offset);
    end_ = noted_bytes_ == 0 ? offset + byte_count
                             : std::max(end_, offset + byte_count);
    noted_bytes_ += byte_count;
    if (noted_bytes_ < window_bytes_) return std::nullopt;
    noted_bytes_ = 0;
    return Range{begin_, end_ - begin_};
  }

 private:
  const uint64_t window_bytes_;
  std::mutex mutex_;
  uint64_t noted_bytes_ = 0;
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
};

}  // namespace holdfast
