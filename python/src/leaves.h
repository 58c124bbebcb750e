// ArrayLeaf, Node and ExternalLeaf: Python's `adapt` hook makes these from
// objects that the bindings do not support directly.
//
// Thread-safety: needs the GIL. Ownership: an ArrayLeaf refers to the arrays of
// its shards.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <vector>

#include "holdfast/dtype.h"
#include "holdfast/tensor.h"

namespace holdfast::python {

struct LeafShard {
  Shape origin;
  nanobind::object array;  // a numpy array or a DeviceArray
};

struct ArrayLeaf {
  Shape shape;
  std::vector<LeafShard> shards;
  // If set, several processes write the array together, and the shards are this
  // process's part, which may be empty.
  std::optional<DType> dtype;
  bool is_jax = true;
  bool immutable = true;
  std::string sharding_json;  // empty: not sharded
  std::string prng_impl;      // empty: not a key
  Shape write_shape;          // empty: the array's own shape
};

struct Node {
  bool is_sequence = false;
  std::vector<nanobind::object> keys;  // empty for a sequence
  nanobind::list children;
};

// A leaf that a type handler stores; only its value type is recorded.
struct ExternalLeaf {
  std::string value_type;
};

}  // namespace holdfast::python
