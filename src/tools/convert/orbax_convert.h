// Converts to one of Orbax's formats, by a save whose arrays are still in
// another checkpoint.
//
// Conversions by several processes, and small ones, are written in one pass.
// All others, and those that replace a foreign checkpoint, are written in parts
// that are kept when the conversion is interrupted (work_directory.h).
// Thread-safety: one call per target path. Ownership: borrows all for the call.
// Errors: those of Convert.
#pragma once

#include <cstdint>

#include "holdfast/tools/convert.h"
#include "stores/place/place.h"
#include "tools/convert/item_tree.h"

namespace holdfast {

// Converts `source`. With a process group, every rank calls this with its own
// source.
// `referred` (borrowed; for one process only) has the arrays whose stored bytes
// the new checkpoint refers to. The checkpoint is then written in one pass.
// `source_hash` is FilesHash of the source. 0 means that there is no such hash.
Result<ConvertResult> ConvertToOrbax(const Checkpoint& source,
                                     uint64_t source_hash,
                                     const Place& target,
                                     const ConvertOptions& options,
                                     const ReferredArrays* referred = nullptr);

}  // namespace holdfast
