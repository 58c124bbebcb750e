// UniqueFd: a file descriptor that closes itself.
//
// Thread-safety: one owner. Errors: those of close() are ignored; a writer that
// needs to know syncs first.
#pragma once

#include <unistd.h>

#include <utility>

namespace holdfast {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() { Reset(); }

  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // Gives up ownership of the descriptor.
  int Release() { return std::exchange(fd_, -1); }
  void Reset() {
    if (valid()) ::close(Release());
  }

 private:
  int fd_ = -1;
};

}  // namespace holdfast
