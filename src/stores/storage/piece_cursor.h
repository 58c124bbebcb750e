// PieceCursor: walks a list of pieces as scatter-gather vectors, however short
// the system's writes are. It does no I/O, so short writes can be tested
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
  // Notes that `byte_count` of the bytes last filled were written.
  void Advance(size_t byte_count);

 private:
  std::span<const std::string_view> pieces_;
  size_t done_bytes_ = 0;  // of pieces_.front()
};

}  // namespace holdfast
