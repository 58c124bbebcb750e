// What every Checkpoint asks of a request, whatever format it reads: the leaf
// by name, the box inside it, the tree of its leaves.
//
// Thread-safety: pure functions. Units: elements.
// Errors: as holdfast/checkpoint.h has them for the methods of Checkpoint.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "holdfast/checkpoint.h"
#include "tensor/box.h"
#include "tree/key_path.h"

namespace holdfast {

// Checkpoint::Find; `path` is for the message.
Result<size_t> FindLeaf(const std::vector<LeafInfo>& leaves,
                        std::string_view path, std::string_view name);

// Ok when the box of `shape` at `origin` is inside the leaf.
Status CheckLeafBox(const LeafInfo& leaf, const Shape& origin,
                    const Shape& shape);

// The target's strides, its dtype and its box. REQUIRES: `leaf` is the
// request's, an array or scalar.
Status CheckReadTarget(const LeafInfo& leaf, const ReadRequest& request);

// Where the leaf is in the tree: key and key_is_sequence.
KeyPath PathOf(const LeafInfo& leaf);

// Runs of whole rows that cover the leaf, each of about this many bytes, in C
// order. They are runs of whole chunks, so that none is decoded twice; where
// elements lie raw ("none") any row will do.
std::vector<Box> SlabsOf(const LeafInfo& leaf, uint64_t slab_bytes);

// Checkpoint::Structure, by key paths alone.
Result<Tree> StructureOf(const std::vector<LeafInfo>& leaves);

// LoadOptions::names: a name selects the leaf itself and everything below it;
// none select all.
bool IsSelected(const std::vector<std::string>& names,
                std::string_view leaf_name);
// NotFound for a name that selects nothing.
Status CheckNamesExist(const std::vector<std::string>& names,
                       const std::vector<std::string_view>& leaf_names);

// ResourceExhausted when tensors of this many bytes take more memory than the
// machine has.
Status CheckMemoryFor(uint64_t byte_count);

// None and the empty containers: a value that needs no bytes.
bool IsEmptyKind(ValueKind kind);
// The value of an empty kind, or a placeholder; None for all others.
Tree EmptyValue(ValueKind kind);

}  // namespace holdfast
