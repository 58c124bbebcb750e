// One item of the parts that several processes wrote (item_writer.h).
//
// Thread-safety: one thread an item. Ownership: borrows stores.
// Errors: those of FinishItem in holdfast/pending_save.h, and of the store.
#pragma once

#include <string>

#include "checkpoint/commit/file_writer.h"
#include "holdfast/pending_save.h"

namespace holdfast {

// Checks the parts, merges their databases into the store's root, removes the
// parts' files, and adds to `files` the digests of all parts. Neither lists nor
// syncs files that others left in the directory (AdoptFiles), and does not
// write the digests. REQUIRES: options.now_ns and random_hex.
Status FinishItemParts(const FinishItemOptions& options, FileWriter& files);

}  // namespace holdfast
