// Makes room for an item in a directory that may hold an earlier item.
//
// Thread-safety: one thread a directory. Errors: those of the store.
#pragma once

#include "holdfast/pending_save.h"
#include "stores/storage/store.h"

namespace holdfast {

// Removes the files by which a reader would find the earlier item or misread
// the new item's values: the files that `part` writes anew (the primary: those
// of the complete item), but not adopted files. Data files stay.
Status RemoveEarlierItem(const ProcessPart& part, bool adopt_existing,
                         Store& store);

}  // namespace holdfast
