// Finds the tree of an older item: from `_METADATA`, the msgpack file, the
// names of directories, or the caller's item.
//
// A leaf is Tree::Object(ValueMetadataEntry) if its value is stored as an array
// or a string. It is the value itself if the msgpack file holds the value.
//
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

// Returns the tree in the msgpack file; nullopt if the file does not exist.
Result<std::optional<Tree>> ReadAggregate(const PyTreeSettings& settings,
                                          const std::string& directory);
// Returns whether the tree holds no values, only references to parameters.
bool HasOnlyReferences(const Tree& aggregate);

// Returns the tree of the item. `source` is null without `_METADATA`. `item` is
// the caller's item or null; it determines the structure if nothing else does.
Result<Tree> LegacyStructure(const PyTreeSettings& settings,
                             const std::string& directory,
                             const ItemSource* source, const Tree* item);

// Returns the entry of a leaf, or null for a leaf that is itself a value.
const ValueMetadataEntry* EntryOfLeaf(const Tree& leaf);

}  // namespace holdfast
