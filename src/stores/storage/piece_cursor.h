// PieceCursor: walks a list of pieces as scatter-gather vectors, however short
// the system's writes turn out. Pure, so that short writes can be tested
// without a disk.
//
// Thread-safety: one thread. Ownership: borrows the pieces. Units: bytes.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <string_view>

namespace holdfast {

class PieceCursor {
 public:
  explicit PieceCursor(std::span<const std::string_view> pieces)
      : pieces_(pieces) {}

  // Fills `vectors` with the next unwritten bytes, empty pieces left out, and
  // at most `byte_count_max` bytes; returns how many vectors are used, 0 only
  // at the end.
  size_t Fill(std::span<iovec> vectors, size_t byte_count_max) const;
  // `byte_count` of the bytes last filled are written.
  void Advance(size_t byte_count);

 private:
  std::span<const std::string_view> pieces_;
  size_t done_bytes_ = 0;  // of pieces_.front()
};

}  // namespace holdfast
