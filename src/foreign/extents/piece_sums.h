// The CRC-32s of values that are written in pieces. Zip archives need them at
// the end.
//
// Thread-safety: Add from any thread; everything else from one thread at a
// time.
// Units: bytes; boxes in elements. Errors: DataLoss for a mark that Add did not
// return.
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
  // Adds the piece at `offset` of value `value`. Returns the piece's mark, as
  // required by FormatTarget::Write.
  std::string Add(size_t value, uint64_t offset, std::string_view bytes);
  // Adds the piece at `box` of `leaf`, with the mark that Add returned for it.
  Status Restore(size_t value, const TargetLeaf& leaf, const Box& box,
                 std::string_view mark);

  struct Sum {
    uint32_t crc32 = 0;
    uint64_t byte_count = 0;
  };
  // Returns the checksum of the pieces of a value up to the first gap. `crc32`
  // is the checksum of the bytes before them.
  Sum Of(size_t value, uint32_t crc32 = 0) const;

 private:
  std::mutex mutex_;
  std::map<size_t, std::map<uint64_t, Sum>> pieces_;  // by offset
};

}  // namespace holdfast
