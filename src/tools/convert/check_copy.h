// Checks that a new checkpoint holds the values that were read for it.
//
// Thread-safety: one call at a time for a source. Units: bytes.
// Errors: DataLoss naming the leaf and the box that differ; those of reading.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/convert/chunk_feed.h"
#include "tools/convert/orbax_plan.h"

namespace holdfast {

// The item that one process has read and must check.
struct CopiedItem {
  std::vector<FeedUnit> units;
  std::vector<std::optional<uint64_t>> hashes;  // of the units
  // The leaves of the whole item.
  std::vector<CopiedLeaf> leaves;
};

struct CheckOptions {
  RunOptions run;            // of each pass
  ProgressFn progress;       // of the whole; may be empty
  uint64_t bytes_max = 0;    // compared at a time
  bool checks_small = true;  // also all leaves other than arrays
  // False: the format knows only names, in which keys are joined, and perhaps
  // no dtype of a leaf other than an array.
  bool has_keys = true;
};

// Decoded bytes that were compared.
Result<uint64_t> CheckCopy(const Checkpoint& source, const Checkpoint& target,
                           const std::vector<CopiedItem>& items,
                           const CheckOptions& options);

}  // namespace holdfast
