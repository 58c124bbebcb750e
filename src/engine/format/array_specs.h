// Arrays that a tree refers to by TensorStore specs, as in T5X checkpoints. In
// their msgpack file `checkpoint`, an array is a dict,
//
//   {"driver": "zarr", "kvstore": {"driver": "file", "path": "target.w/"},
//    "dtype": "float32", "metadata": {"shape": [2, 3], ...}}
//
// and is stored in the zarr directory of that name, next to the file. The
// kvstore is that of the machine that saved, so only the end of its path
// counts. A "cast" driver may wrap the spec of the stored array.
//
// Thread-safety: pure functions. Ownership: results own their values.
// Errors: those in ArraySpec::problem.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "holdfast/status.h"
#include "holdfast/tensor.h"
#include "holdfast/tree.h"

namespace holdfast {

struct ArraySpec {
  // The array's directory below the checkpoint's. Not validated: it may be any
  // string from the file.
  std::string array;
  std::optional<Shape> shape;  // the shape in the spec
  Status problem;              // Unimplemented: a driver other than zarr
};

using ArraySpecs = std::unordered_map<std::string, ArraySpec>;

// Parses a spec; returns nullopt if the node is not one.
std::optional<ArraySpec> ParseArraySpec(const Tree& node);

// Replaces each spec in the tree by a Reference, whose text is the key of the
// returned ArraySpec.
ArraySpecs TakeArraySpecs(Tree& tree);

}  // namespace holdfast
