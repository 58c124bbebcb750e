// The tree of any Checkpoint, through only its public face.
//
// Thread-safety, ownership, errors: as Load in holdfast/checkpoint.h.
#pragma once

#include "holdfast/checkpoint.h"

namespace holdfast {

// All leaves that options.names select, the arrays in one ReadInto. An object
// leaf becomes Tree::Object of a PickleValue.
Result<LoadResult> LoadLeaves(const Checkpoint& checkpoint,
                              const LoadOptions& options);

}  // namespace holdfast
