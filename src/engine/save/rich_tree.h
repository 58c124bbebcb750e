// Writes the member `value_metadata_tree` of `_METADATA`. It records tuples and
// named tuples as such, and each leaf with its entry in `tree_metadata`.
//
// Source: orbax-checkpoint 0.12.8, _src/metadata/tree_rich_types.py.
// Thread-safety: pure function. Errors: none.
#pragma once

#include <string>
#include <vector>

#include "engine/format/tree_metadata.h"
#include "ground/tree/flatten.h"
#include "holdfast/tree.h"

namespace holdfast {

// Returns the JSON text.
// REQUIRES: `leaves` are the leaves of `tree`, flattened with rich types, and
// `metadata` has an entry for each of them, in the same order.
std::string RichTreeJson(const Tree& tree, const std::vector<FlatLeaf>& leaves,
                         const TreeMetadata& metadata);

}  // namespace holdfast
