// Lays the item that a caller wants over the tree that is stored.
//
// Thread-safety: pure functions. Ownership: matches borrow the item.
// Errors: InvalidArgument with Orbax's texts for structures that do not match.
#pragma once

#include <optional>
#include <vector>

#include "ground/tree/key_path.h"
#include "holdfast/checkpoint.h"
#include "holdfast/status.h"
#include "holdfast/tree.h"

namespace holdfast {

// One leaf of the item that stands for a value; None and empty containers stay
// as they are in the item and have no match.
struct ItemMatch {
  KeyPath path;
  const Tree* leaf = nullptr;
  // The number in the entry tree; absent: left out, the item's leaf comes back.
  std::optional<size_t> entry;
};

// `entries` as EntryTree makes it of `checkpoint`. In the order in which
// MapLeaves visits `item`. Without `partial_restore` both have the same
// structure, but for Placeholders of the item.
Result<std::vector<ItemMatch>> MatchItem(const Tree& item, const Tree& entries,
                                         const Checkpoint& checkpoint,
                                         bool partial_restore);

}  // namespace holdfast
