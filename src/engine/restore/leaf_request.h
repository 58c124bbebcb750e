// Questions about the leaves of any Checkpoint: where they are in its tree,
// which of them are wanted, and how they are cut for readers with little
// memory.
//
// Thread-safety: pure functions. Units: elements.
// Errors: as holdfast/checkpoint.h has them for the methods of Checkpoint.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ground/tensor/box.h"
#include "ground/tree/key_path.h"
#include "holdfast/checkpoint.h"

namespace holdfast {

// A leaf whose path is its name, and a checkpoint of one item.
LeafInfo NamedLeaf(std::string name, ValueKind kind);
CheckpointInfo OneItemInfo(std::string path, std::string format);

// Where the leaf is in the tree: key and key_kinds.
KeyPath PathOf(const LeafInfo& leaf);

// Runs of whole rows that cover the leaf, each of about this many bytes, in C
// order. They are runs of whole chunks, so that none is decoded twice; where
// elements lie raw ("none") any row will do.
std::vector<Box> SlabsOf(const LeafInfo& leaf, uint64_t slab_bytes);

// Checkpoint::Structure, only by key paths.
Result<Tree> StructureOf(const std::vector<LeafInfo>& leaves);

// LoadOptions::names: a name selects the leaf itself and everything below it;
// none select all.
bool IsSelected(const std::vector<std::string>& names,
                std::string_view leaf_name);
// NotFound for a name that selects nothing.
Status CheckNamesExist(const std::vector<std::string>& names,
                       const std::vector<std::string_view>& leaf_names);

// The kind of a leaf of `_METADATA`, by how that spells its type.
ValueKind KindOfValueType(std::string_view value_type);
// Arrays and scalars: what Read gives.
bool HasElements(ValueKind kind);
// Whether ReadText gives the leaf's value.
bool HasText(ValueKind kind);
// None and the empty containers: a value that needs no bytes.
bool IsEmptyKind(ValueKind kind);
// The value of an empty kind, or a placeholder; None for all others.
Tree EmptyValue(ValueKind kind);

}  // namespace holdfast
