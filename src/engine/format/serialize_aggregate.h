// Writes the format that ParseAggregate reads (aggregate.h): a complete tree as
// one msgpack text, byte for byte as orbax-checkpoint 0.12.8 and flax write it.
//
// Thread-safety: pure function. Ownership: the text owns copies of all values.
// Units: bytes. Cost: the memory of every value, twice for arrays.
// Errors: InvalidArgument, naming the path, for leaves that the format cannot
// hold (objects, typed keys) and for strings that are not UTF-8.
#pragma once

#include <string>

#include "holdfast/status.h"
#include "holdfast/tree.h"

namespace holdfast {

// Serializes the tree. Dicts keep their order; named tuples become dicts, as in
// Orbax's serialized trees.
Result<std::string> SerializeAggregate(const Tree& tree);

}  // namespace holdfast
