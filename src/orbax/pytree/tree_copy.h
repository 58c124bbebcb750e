// A copy of a tree's arrays, for a save that goes on while the program changes
// them.
//
// Thread-safety: pure functions of the tree; the copy is made by all threads.
// Ownership: the result shares only immutable arrays with the tree. Units:
// bytes. Errors: ResourceExhausted.
#pragma once

#include <cstdint>

#include "holdfast/orbax/pytree_checkpoint_handler.h"
#include "holdfast/status.h"
#include "holdfast/tree.h"

namespace holdfast {

// The bytes that Snapshot would copy.
uint64_t ArrayBytes(const Tree& tree, const IsImmutableFn& is_immutable = {});

// `is_first` (may be empty) says which leaves are copied before all others,
// `is_immutable` (may be empty) which are not copied.
// REQUIRES: at most kTreeDepthMax levels.
Result<Tree> Snapshot(const Tree& tree, const IsPrioritizedKeyFn& is_first,
                      const IsImmutableFn& is_immutable = {});

}  // namespace holdfast
