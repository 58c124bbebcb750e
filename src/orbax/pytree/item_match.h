// Matches the item that a caller wants with the stored tree.
//
// Thread-safety: pure functions. Ownership: matches borrow the item.
// Errors: InvalidArgument with Orbax's messages for structures that do not
// match.
#pragma once

#include <optional>
#include <vector>

#include "ground/tree/key_path.h"
#include "holdfast/checkpoint.h"
#include "holdfast/status.h"
#include "holdfast/tree.h"

namespace holdfast {

// A leaf of the item that is to become a stored value. None and empty
// containers of the item stay as they are, and have no match.
struct ItemMatch {
  KeyPath path;
  const Tree* leaf = nullptr;
  // The index in the entry tree. If it is absent, the item's own leaf is
  // returned.
  std::optional<size_t> entry;
};

// Matches `item` with `entries`, which is EntryTree(checkpoint). The result is
// in the order in which MapLeaves visits `item`. Without `partial_restore`,
// both must have the same structure, except for Placeholders in the item.
Result<std::vector<ItemMatch>> MatchItem(const Tree& item, const Tree& entries,
                                         const Checkpoint& checkpoint,
                                         bool partial_restore);

}  // namespace holdfast
