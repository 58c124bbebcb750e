// Converts to a format other than Orbax's, in five steps.
//
// 1. The wanted leaves become a TargetPlan; small values are read.
// 2. The target divides them into pieces, in the order of its files (CopyPlan).
//    A journal is valid only for a plan with the same hash.
// 3. A ChunkFeed reads batches of pieces; workers write each directly to its
//    final position in the target's files. From time to time everything written
//    is synced and recorded in the journal.
// 4. The finished target is opened and every piece's hash is compared.
// 5. The target gets its name.
//
// Thread-safety: one call per target path. Ownership: borrows all for the call.
// Errors: those of Convert.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "foreign/extents/target.h"
#include "holdfast/tools/convert.h"
#include "stores/place/place.h"
#include "tools/convert/chunk_feed.h"
#include "tools/convert/leaf_map.h"

namespace holdfast {

// The functions that write one format and read it back.
struct FormatAccess {
  Format format = Format::kSafetensors;
  std::unique_ptr<FormatTarget> target;
  std::function<Result<std::unique_ptr<Checkpoint>>(const std::string& path)>
      open;
};
// Returns Unimplemented for Orbax's formats.
Result<FormatAccess> AccessOf(Format format);

// The pieces to read and write, in order.
struct CopyPlan {
  std::vector<FeedUnit> units;        // by leaf of the source
  std::vector<size_t> target_leaves;  // of the units, in TargetPlan::leaves
};
// Lists the pieces that `target` writes. REQUIRES: target.Begin was called with
// `plan`.
CopyPlan MakeCopyPlan(const TargetPlan& plan, const FormatTarget& target,
                      uint64_t piece_bytes_max);

// Hashes everything in the plan except the target's path and the run options.
uint64_t PlanHash(const TargetPlan& plan, Format format,
                  uint64_t piece_bytes_max);

// Adds to the report the leaves that a format can store only as bits.
void ReportStoredBits(const TargetPlan& plan, Format format,
                      ConvertReport& report);

// Converts `source`. `source_hash` is FilesHash of the source.
Result<ConvertResult> ConvertToFormat(const Checkpoint& source,
                                      uint64_t source_hash,
                                      const Place& target,
                                      const ConvertOptions& options,
                                      FormatAccess access);

}  // namespace holdfast
