#include "foreign/extents/piece_sums.h"

#include "foreign/extents/target_pieces.h"
#include "formats/zip/zip_writer.h"
#include "ground/base/text.h"

namespace holdfast {

std::string PieceSums::Add(size_t value, uint64_t offset,
                           std::string_view bytes) {
  const Sum piece{pickle::ZipCrc32(bytes), bytes.size()};
  const std::lock_guard lock(mutex_);
  pieces_[value][offset] = piece;
  return std::to_string(piece.crc32);
}

Status PieceSums::Restore(size_t value, const TargetLeaf& leaf, const Box& box,
                          std::string_view mark) {
  // Older marks have other numbers before the CRC.
  const auto crc32 = ParseNumber<uint32_t>(mark.substr(mark.rfind(' ') + 1));
  if (!crc32) {
    return DataLossError("leaf " + leaf.name +
                         ": the record of its written pieces has a broken "
                         "entry: \"" +
                         std::string(mark) + "\"");
  }
  pieces_[value][COffset(leaf, box)] = {
      *crc32, ElementCount(box.shape) * DTypeBytes(leaf.dtype)};
  return Status();
}

PieceSums::Sum PieceSums::Of(size_t value, uint32_t crc32) const {
  Sum sum{crc32, 0};
  const auto pieces = pieces_.find(value);
  if (pieces == pieces_.end()) return sum;
  for (const auto& [offset, piece] : pieces->second) {
    if (offset != sum.byte_count) break;
    sum.crc32 =
        pickle::CombineZipCrc32(sum.crc32, piece.crc32, piece.byte_count);
    sum.byte_count += piece.byte_count;
  }
  return sum;
}

}  // namespace holdfast
