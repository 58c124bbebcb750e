// Makes room for an item in a directory that may hold an earlier item.
//
// Thread-safety: one thread per directory. Errors: those of the store.
#pragma once

#include "holdfast/pending_save.h"
#include "stores/storage/store.h"

namespace holdfast {

// Removes files that would make a reader find the earlier item or misread the
// new item's values. These are the files that `part` will write (on the
// primary, also the files about the complete item), except adopted files. Data
// files stay.
Status RemoveEarlierItem(const ProcessPart& part, bool adopt_existing,
                         Store& store);

}  // namespace holdfast
