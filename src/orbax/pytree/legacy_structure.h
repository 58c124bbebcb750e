// Finds the tree of an older item: from `_METADATA`, the msgpack file, the
// names of directories, or the caller's item.
//
// A leaf is Tree::Object(ValueMetadataEntry) where a value is stored as an
// array or text, and the value itself where the msgpack file holds it.
// Thread-safety: pure functions of the file system. Ownership: results own
// their values.
// Errors: NotFound when the structure cannot be determined; DataLoss.
#pragma once

#include <optional>
#include <string>

#include "holdfast/pytree_metadata.h"
#include "holdfast/tree.h"
#include "orbax/pytree/item_source.h"
#include "orbax/pytree/settings.h"

namespace holdfast {

// The tree in the msgpack file; nullopt when the file does not exist.
Result<std::optional<Tree>> ReadAggregate(const PyTreeSettings& settings,
                                          const std::string& directory);
// Whether the tree holds no values, only references to parameters.
bool HasOnlyReferences(const Tree& aggregate);

// `source` is null without `_METADATA`. `item` is the caller's, or null; it
// determines the structure when nothing else does.
Result<Tree> LegacyStructure(const PyTreeSettings& settings,
                             const std::string& directory,
                             const ItemSource* source, const Tree* item);

// Null for a leaf that is itself a value.
const ValueMetadataEntry* EntryOfLeaf(const Tree& leaf);

}  // namespace holdfast
