// A conversion to a format that is not Orbax's: plan, stream, compare, publish.
//
// 1. The leaves that are wanted become a TargetPlan; small values are read.
// 2. The target cuts them into pieces, in the order of its files (CopyPlan): a
//    value, and its hash is what a journal is of.
// 3. A ChunkFeed reads batches of pieces, workers write them straight to their
//    final place in the target's files. Now and then everything written is
//    synced and noted in the journal.
// 4. The finished target is opened and every piece's hash compared.
// 5. It gets its name.
//
// Thread-safety: one call a target path. Ownership: borrows all for the call.
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
// Unimplemented for Orbax's formats.
Result<FormatAccess> AccessOf(Format format);

// The pieces to read and write, in order.
struct CopyPlan {
  std::vector<FeedUnit> units;        // by leaf of the source
  std::vector<size_t> target_leaves;  // of the units, in TargetPlan::leaves
};
// REQUIRES: `target` has begun with `plan`.
CopyPlan MakeCopyPlan(const TargetPlan& plan, const FormatTarget& target,
                      uint64_t piece_bytes_max);

// A hash of everything in a plan except its target's path and its run options.
uint64_t PlanHash(const TargetPlan& plan, Format format,
                  uint64_t piece_bytes_max);

// Adds to the report the leaves that a format can store only as bits.
void ReportStoredBits(const TargetPlan& plan, Format format,
                      ConvertReport& report);

// `source_hash`: FilesHash of the source.
Result<ConvertResult> ConvertToFormat(const Checkpoint& source,
                                      uint64_t source_hash,
                                      const Place& target,
                                      const ConvertOptions& options,
                                      FormatAccess access);

}  // namespace holdfast
