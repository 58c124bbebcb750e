// The tree of an older item: from `_METADATA`, the msgpack file, the names of
// directories, or the caller's item.
//
// A leaf is Tree::Object(ValueMetadataEntry) where a value is stored as an
// array or text, and the value itself where the msgpack file holds it.
// Thread-safety: pure functions of the file system. Ownership: results own
// their values.
// Errors: NotFound where nothing tells the structure; DataLoss.
#pragma once

#include <optional>
#include <string>

#include "holdfast/pytree_metadata.h"
#include "holdfast/tree.h"
#include "orbax/pytree/item_source.h"
#include "orbax/pytree/settings.h"

namespace holdfast {

// The msgpack file's tree; nullopt when there is no such file.
Result<std::optional<Tree>> ReadAggregate(const PyTreeSettings& settings,
                                          const std::string& directory);
// Whether it holds no value, only references to parameters.
bool HasOnlyReferences(const Tree& aggregate);

// `source`: null when there is no `_METADATA`. `item`: of the caller, or null;
// it gives the structure when nothing else does.
Result<Tree> LegacyStructure(const PyTreeSettings& settings,
                             const std::string& directory,
                             const ItemSource* source, const Tree* item);

// Null for a leaf that is a value itself.
const ValueMetadataEntry* EntryOfLeaf(const Tree& leaf);

}  // namespace holdfast
