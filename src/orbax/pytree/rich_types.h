// Reads `value_metadata_tree` of `_METADATA`: tuples and named tuples recorded
// as such, each leaf with its entry of `tree_metadata`
// (engine/save/rich_tree.h writes it). RecordedContainers is made of it.
//
// Source: orbax-checkpoint 0.12.8, _src/metadata/tree_rich_types.py.
// Thread-safety: pure functions. Errors: DataLoss for any other text.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ground/tree/key_path.h"
#include "holdfast/status.h"
#include "holdfast/tree.h"

namespace holdfast {

// The tree that a text stands for: its containers, and leaf(path) where it has
// an entry, empties too.
using RichLeafFn = std::function<Result<Tree>(const KeyPath& path)>;
Result<Tree> ParseRichTree(std::string_view text, const RichLeafFn& leaf);

}  // namespace holdfast
