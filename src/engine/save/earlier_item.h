// Making room for an item in a directory that may hold an earlier one.
//
// Thread-safety: one thread a directory. Errors: those of the store.
#pragma once

#include "holdfast/pending_save.h"
#include "stores/storage/store.h"

namespace holdfast {

// Removes the files by which the earlier item would be found, or that would
// speak of the new one's values: those that `part` writes anew, of the whole
// item where it is the primary; not what is adopted. Data files stay.
Status RemoveEarlierItem(const ProcessPart& part, bool adopt_existing,
                         Store& store);

}  // namespace holdfast
