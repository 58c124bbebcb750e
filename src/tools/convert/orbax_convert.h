// A conversion to one of Orbax's formats: a save whose arrays are still in
// another checkpoint.
//
// By several processes, or of little, in one go; otherwise, and where a foreign
// checkpoint is replaced, in parts that are kept when the conversion is cut off
// (work_directory.h).
// Thread-safety: one call a target path. Ownership: borrows all for the call.
// Errors: those of Convert.
#pragma once

#include <cstdint>

#include "holdfast/tools/convert.h"
#include "stores/place/place.h"
#include "tools/convert/item_tree.h"

namespace holdfast {

// With a group every rank calls it, each with a source of its own. `referred`,
// for one process: arrays that the new checkpoint only refers to; it is then
// written in one go. Borrowed.
// `source_hash`: FilesHash of the source; 0: it has no hash that identifies it.
Result<ConvertResult> ConvertToOrbax(const Checkpoint& source,
                                     uint64_t source_hash,
                                     const Place& target,
                                     const ConvertOptions& options,
                                     const ReferredArrays* referred = nullptr);

}  // namespace holdfast
