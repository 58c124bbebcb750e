// Checks files against `_HOLDFAST_DIGESTS` while they are copied, in pieces
// that may come in any order.
//
// Thread-safety: ListedSums is a value; FileSums::Add from any thread.
// Units: bytes. Ownership: FileSums borrows its ranges.
// Errors: DataLoss, with the file and the offset, for a damaged list, for a
// listed file that is missing, and for bytes that differ.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/commit/tree_listing.h"
#include "holdfast/status.h"

namespace holdfast {

// The CRC-32C of a file's bytes [begin, end).
struct SummedRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint32_t crc32c = 0;
};

// Keyed by the names of a listing's files.
using ListedSums = std::unordered_map<std::string, std::vector<SummedRange>>;

// Reads the ranges of all digest files in a listing.
Result<ListedSums> ReadListedSums(const TreeListing& listing);

class FileSums {
 public:
  explicit FileSums(const std::vector<SummedRange>& ranges)
      : ranges_(ranges), parts_(ranges.size()) {}

  // Adds a piece of the file. Each byte must be added exactly once.
  void Add(uint64_t offset, std::string_view piece);
  // Returns DataLoss unless all ranges have their CRC. Call it after all pieces
  // were added. `path` is for the message.
  Status Check(const std::string& path);

 private:
  struct Part {
    uint64_t offset = 0;
    uint64_t byte_count = 0;
    uint32_t crc32c = 0;
  };

  const std::vector<SummedRange>& ranges_;
  std::mutex mutex_;
  std::vector<std::vector<Part>> parts_;  // of each range
};

}  // namespace holdfast
