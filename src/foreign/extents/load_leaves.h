// Loads the tree of any Checkpoint, using only its public interface.
//
// Thread-safety, ownership, errors: as Load in holdfast/checkpoint.h.
#pragma once

#include "holdfast/checkpoint.h"

namespace holdfast {

// Loads all leaves that options.names select, and all arrays with one ReadInto.
// An object leaf becomes the Tree::Object of a PickleValue.
Result<LoadResult> LoadLeaves(const Checkpoint& checkpoint,
                              const LoadOptions& options);

}  // namespace holdfast
