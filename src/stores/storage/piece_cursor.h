// PieceCursor: walks a list of pieces as scatter-gather vectors, and continues
// after short writes. It does no I/O, so that short writes can be tested
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

  // Fills `vectors` with the next unwritten bytes, at most `byte_count_max`,
  // leaving out empty pieces. Returns how many vectors are used; 0 only at the
  // end.
  size_t Fill(std::span<iovec> vectors, size_t byte_count_max) const;
  // Notes that the first `byte_count` bytes of the last Fill have been written.
  void Advance(size_t byte_count);

 private:
  std::span<const std::string_view> pieces_;
  size_t done_bytes_ = 0;  // in pieces_.front()
};

}  // namespace holdfast
