// Checks the bytes of files against `_HOLDFAST_DIGESTS` while they are copied,
// in pieces of any order.
//
// Thread-safety: ListedSums is a value; FileSums::Add from any thread.
// Units: bytes. Ownership: FileSums borrows its ranges.
// Errors: DataLoss for a damaged sidecar, a missing listed file, and bytes that
// differ, with the file and the offset.
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

// Bytes [begin, end) of a file have this CRC-32C.
struct SummedRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint32_t crc32c = 0;
};

// Keyed by the names of a listing's files.
using ListedSums = std::unordered_map<std::string, std::vector<SummedRange>>;

// The rows of all digest files in a listing.
Result<ListedSums> ReadListedSums(const TreeListing& listing);

class FileSums {
 public:
  explicit FileSums(const std::vector<SummedRange>& ranges)
      : ranges_(ranges), parts_(ranges.size()) {}

  // Adds a piece of the file; each byte exactly once.
  void Add(uint64_t offset, std::string_view piece);
  // Call it after all pieces; `path` is for the message.
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
