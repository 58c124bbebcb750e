// Queries about the leaves of any Checkpoint: where they are in its tree, which
// ones are wanted, and how they are cut for readers with little memory.
//
// Thread-safety: pure functions. Units: elements.
// Errors: those that holdfast/checkpoint.h documents for methods of Checkpoint.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ground/tensor/box.h"
#include "ground/tree/key_path.h"
#include "holdfast/checkpoint.h"

namespace holdfast {

// Returns a leaf whose path is just its name.
LeafInfo NamedLeaf(std::string name, ValueKind kind);
// Returns the description of a checkpoint of a single item.
CheckpointInfo OneItemInfo(std::string path, std::string format);

// Returns the leaf's path in the tree: key and key_kinds.
KeyPath PathOf(const LeafInfo& leaf);

// Cuts the leaf into runs of complete rows of about this many bytes each, in C
// order. A run consists of complete chunks, so that no chunk is decoded twice.
// If the elements are stored raw ("none"), a run may end between any two rows.
std::vector<Box> SlabsOf(const LeafInfo& leaf, uint64_t slab_bytes);

// Returns what Checkpoint::Structure does, built only from key paths.
Result<Tree> StructureOf(const std::vector<LeafInfo>& leaves);

// Returns whether `names` (LoadOptions::names) select the leaf. A name selects
// the leaf itself and everything below it; an empty list selects all leaves.
bool IsSelected(const std::vector<std::string>& names,
                std::string_view leaf_name);
// Returns NotFound for a name that selects nothing.
Status CheckNamesExist(const std::vector<std::string>& names,
                       const std::vector<std::string_view>& leaf_names);

// Returns the kind of a leaf in `_METADATA`, from the type string there.
ValueKind KindOfValueType(std::string_view value_type);
// Returns true for arrays and scalars, which Read returns.
bool HasElements(ValueKind kind);
// Returns whether ReadText returns the leaf's value.
bool HasText(ValueKind kind);
// Returns true for None and the empty containers, whose values need no bytes.
bool IsEmptyKind(ValueKind kind);
// Returns the value of an empty kind or placeholder; None for all others.
Tree EmptyValue(ValueKind kind);

}  // namespace holdfast
