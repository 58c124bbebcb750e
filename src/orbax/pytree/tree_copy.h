// Copies a tree's arrays for a save that continues while the program changes
// the originals.
//
// Thread-safety: pure functions of the tree; all threads make the copy.
// Ownership: the result shares only immutable arrays with the tree. Units:
// bytes. Errors: ResourceExhausted.
#pragma once

#include <cstdint>

#include "holdfast/orbax/pytree_checkpoint_handler.h"
#include "holdfast/status.h"
#include "holdfast/tree.h"

namespace holdfast {

// Returns the number of bytes that Snapshot would copy.
uint64_t ArrayBytes(const Tree& tree, const IsImmutableFn& is_immutable = {});

// Returns a copy of the tree. `is_first` (may be empty) selects the leaves that
// are copied before all others. Leaves for which `is_immutable` (may be empty)
// returns true are not copied, but shared.
// REQUIRES: at most kTreeDepthMax levels.
Result<Tree> Snapshot(const Tree& tree, const IsPrioritizedKeyFn& is_first,
                      const IsImmutableFn& is_immutable = {});

}  // namespace holdfast
