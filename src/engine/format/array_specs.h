// Arrays that a tree names by specs of TensorStore: T5X keeps a checkpoint so.
// In its msgpack file `checkpoint` an array is a dict,
//
//   {"driver": "zarr", "kvstore": {"driver": "file", "path": "target.w/"},
//    "dtype": "float32", "metadata": {"shape": [2, 3], ...}}
//
// and lies in the zarr directory of that name, beside the file. The kvstore is
// the one of the machine that saved, and only the end of its path counts; a
// driver "cast" stands around the spec of what is stored.
//
// Thread-safety: pure functions. Ownership: results own their values.
// Errors: as ArraySpec::problem.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "holdfast/status.h"
#include "holdfast/tensor.h"
#include "holdfast/tree.h"

namespace holdfast {

struct ArraySpec {
  // Its directory below the checkpoint's; a text of the file, so far: any.
  std::string array;
  std::optional<Shape> shape;  // of the array, as the spec says
  Status problem;              // Unimplemented: another driver than zarr's
};

using ArraySpecs = std::unordered_map<std::string, ArraySpec>;

// Nullopt: not a spec.
std::optional<ArraySpec> ParseArraySpec(const Tree& node);

// Puts a Reference in place of each spec in the tree; its text is the key of
// what the spec says.
ArraySpecs TakeArraySpecs(Tree& tree);

}  // namespace holdfast
