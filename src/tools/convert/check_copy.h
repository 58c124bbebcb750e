// Checks that a new checkpoint holds the values that were read for it.
//
// Thread-safety: one call at a time per source. Units: bytes.
// Errors: DataLoss that names the leaf and the box that differ; those of
// reading.
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
  // The leaves of the complete item.
  std::vector<CopiedLeaf> leaves;
};

struct CheckOptions {
  RunOptions run;            // of each pass
  ProgressFn progress;       // of all passes together; may be empty
  uint64_t bytes_max = 0;    // compared at a time
  bool checks_small = true;  // also checks all leaves other than arrays
  // If false, the format has no keys, only names made of joined keys, and may
  // lack the dtypes of leaves other than arrays.
  bool has_keys = true;
};

// Compares `target` with what was read from `source`. Returns the number of
// decoded bytes compared.
Result<uint64_t> CheckCopy(const Checkpoint& source, const Checkpoint& target,
                           const std::vector<CopiedItem>& items,
                           const CheckOptions& options);

}  // namespace holdfast
