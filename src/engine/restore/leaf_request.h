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

// A leaf whose path is just its name, and a checkpoint of a single item.
LeafInfo NamedLeaf(std::string name, ValueKind kind);
CheckpointInfo OneItemInfo(std::string path, std::string format);

// The leaf's path in the tree: key and key_kinds.
KeyPath PathOf(const LeafInfo& leaf);

// Cuts the leaf into runs of complete rows of about this many bytes each, in C
// order. They are runs of complete chunks, so that no chunk is decoded twice;
// if elements are stored raw ("none"), any rows will do.
std::vector<Box> SlabsOf(const LeafInfo& leaf, uint64_t slab_bytes);

// Checkpoint::Structure, built only from key paths.
Result<Tree> StructureOf(const std::vector<LeafInfo>& leaves);

// LoadOptions::names: a name selects the leaf itself and everything below it;
// an empty list selects all leaves.
bool IsSelected(const std::vector<std::string>& names,
                std::string_view leaf_name);
// NotFound for a name that selects nothing.
Status CheckNamesExist(const std::vector<std::string>& names,
                       const std::vector<std::string_view>& leaf_names);

// The kind of a leaf in `_METADATA`, from the type string there.
ValueKind KindOfValueType(std::string_view value_type);
// True for arrays and scalars, which Read returns.
bool HasElements(ValueKind kind);
// Whether ReadText returns the leaf's value.
bool HasText(ValueKind kind);
// True for None and the empty containers, whose values need no bytes.
bool IsEmptyKind(ValueKind kind);
// The value of an empty kind or placeholder; None for all others.
Tree EmptyValue(ValueKind kind);

}  // namespace holdfast
