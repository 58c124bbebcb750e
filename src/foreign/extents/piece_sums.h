// The CRC-32 of values that are written in pieces: what zip archives want to
// know of them in the end.
//
// Thread-safety: Add from any thread; everything else from one thread at a
// time.
// Units: bytes; boxes in elements. Errors: DataLoss for a mark of another's.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "foreign/extents/target.h"

namespace holdfast {

class PieceSums {
 public:
  // The piece of value `value` at `offset`. Returns its mark, as
  // FormatTarget::Write wants it.
  std::string Add(size_t value, uint64_t offset, std::string_view bytes);
  // The piece that is the box of `leaf`, with the mark that Add gave it.
  Status Restore(size_t value, const TargetLeaf& leaf, const Box& box,
                 std::string_view mark);

  struct Sum {
    uint32_t crc32 = 0;
    uint64_t byte_count = 0;
  };
  // The sum of the pieces of a value, up to the first gap, behind what `crc32`
  // is of.
  Sum Of(size_t value, uint32_t crc32 = 0) const;

 private:
  std::mutex mutex_;
  std::map<size_t, std::map<uint64_t, Sum>> pieces_;  // by offset
};

}  // namespace holdfast
