// Reads `value_metadata_tree` of `_METADATA`, which records tuples and named
// tuples, and repeats each leaf's entry of `tree_metadata`
// (engine/save/rich_tree.h writes it). RecordedContainers is built on this.
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

// Returns the tree that `text` describes: its containers, with leaf(path) for
// every entry, including empties.
using RichLeafFn = std::function<Result<Tree>(const KeyPath& path)>;
Result<Tree> ParseRichTree(std::string_view text, const RichLeafFn& leaf);

}  // namespace holdfast
