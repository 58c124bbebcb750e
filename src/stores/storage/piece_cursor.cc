#include "stores/storage/piece_cursor.h"

#include <algorithm>
#include <cassert>

namespace holdfast {

size_t PieceCursor::Fill(std::span<iovec> vectors,
                         size_t byte_count_max) const {
  size_t used = 0;
  size_t skip = done_bytes_;
  for (std::string_view piece : pieces_) {
    if (used == vectors.size() || byte_count_max == 0) break;
    piece.remove_prefix(skip);
    skip = 0;
    if (piece.empty()) continue;
    const size_t byte_count = std::min(piece.size(), byte_count_max);
    vectors[used++] = {const_cast<char*>(piece.data()), byte_count};
    byte_count_max -= byte_count;
  }
  return used;
}

void PieceCursor::Advance(size_t byte_count) {
  done_bytes_ += byte_count;
  while (!pieces_.empty() && done_bytes_ >= pieces_.front().size()) {
    done_bytes_ -= pieces_.front().size();
    pieces_ = pieces_.subspan(1);
  }
  assert(!pieces_.empty() || done_bytes_ == 0);
}

}  // namespace holdfast
