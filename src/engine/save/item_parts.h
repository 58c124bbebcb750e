// Assembles one item from the parts that several processes wrote
// (item_writer.h).
//
// Thread-safety: one thread per item. Ownership: borrows stores.
// Errors: those of FinishItem in holdfast/pending_save.h, and of the store.
#pragma once

#include <string>

#include "engine/commit/file_writer.h"
#include "engine/save/save_plan.h"
#include "holdfast/pending_save.h"

namespace holdfast {

// Checks the parts, merges their databases into the store's root, removes the
// parts' files, and adds the digests of all parts to `files`. Neither lists nor
// syncs files that others left in the directory (AdoptFiles), and does not
// write the digests. REQUIRES: options.now_ns and random_hex.
// `plan` is the primary's; null means that it is not known and has no `also`.
Status FinishItemParts(const FinishItemOptions& options, FileWriter& files,
                       const SavePlan* plan = nullptr);

}  // namespace holdfast
