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

// Checkpoint::Structure, by key paths alone.
Result<Tree> StructureOf(const std::vector<LeafInfo>& leaves);

// None and the empty containers: a value that needs no bytes.
bool IsEmptyKind(ValueKind kind);
// The value of an empty kind, or a placeholder; None for all others.
Tree EmptyValue(ValueKind kind);

}  // namespace holdfast
