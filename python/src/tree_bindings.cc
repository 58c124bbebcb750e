#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "arguments.h"
#include "bindings.h"
#include "device_arrays.h"
#include "errors.h"
#include "leaves.h"
#include "numpy_arrays.h"
#include "tree_builder.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

// Accepts a numpy dtype, or anything that numpy can convert to a dtype.
DType StoredDTypeOf(nb::handle dtype, const char* what) {
  const nb::object descr =
      nb::module_::import_("numpy").attr("dtype")(nb::borrow(dtype));
  const std::optional<DType> stored = DTypeOfDescr(descr);
  if (stored) return *stored;
  ThrowValueError(std::string(what) + ": dtype " + nb::str(descr).c_str() +
                  " cannot be stored in a checkpoint");
}

void InitArrayLeaf(ArrayLeaf* self, nb::handle shape, nb::handle shards,
                   const std::string& kind, bool immutable,
                   const std::optional<std::string>& sharding_json,
                   const std::optional<std::string>& prng_impl,
                   nb::handle write_shape, nb::handle dtype) {
  ArrayLeaf leaf;
  if (kind != "jax" && kind != "numpy") {
    ThrowValueError("ArrayLeaf: kind: got '" + kind +
                    "', want 'jax' or 'numpy'");
  }
  leaf.shape = ShapeOf(shape, "ArrayLeaf: shape");
  for (const nb::handle shard : nb::cast<nb::sequence>(shards)) {
    const nb::object array = shard[1];
    if (!IsArray(array) && !nb::isinstance<DeviceArrayObject>(array)) {
      ThrowValueError("ArrayLeaf: a shard is not a numpy array");
    }
    leaf.shards.push_back(
        {ShapeOf(nb::object(shard[0]), "ArrayLeaf: origin"), array});
  }
  if (!dtype.is_none()) leaf.dtype = StoredDTypeOf(dtype, "ArrayLeaf");
  if (leaf.shards.empty() && !leaf.dtype) {
    ThrowValueError("ArrayLeaf: no shards, and no dtype");
  }
  leaf.is_jax = kind == "jax";
  leaf.immutable = immutable;
  leaf.sharding_json = sharding_json.value_or("");
  leaf.prng_impl = prng_impl.value_or("");
  if (!write_shape.is_none()) {
    leaf.write_shape = ShapeOf(write_shape, "ArrayLeaf: write_shape");
  }
  new (self) ArrayLeaf(std::move(leaf));
}

void InitNode(Node* self, const std::string& kind, nb::handle keys,
              nb::handle children) {
  Node node;
  if (kind != "attributes" && kind != "sequence") {
    ThrowValueError("Node: kind: got '" + kind +
                    "', want 'attributes' or 'sequence'");
  }
  node.is_sequence = kind == "sequence";
  node.children = nb::list(nb::borrow(children));
  if (!node.is_sequence) {
    for (const nb::handle key : nb::cast<nb::sequence>(keys)) {
      node.keys.push_back(nb::borrow(key));
    }
    if (node.keys.size() != nb::len(node.children)) {
      ThrowValueError("Node: " + std::to_string(node.keys.size()) +
                      " keys for " + std::to_string(nb::len(node.children)) +
                      " children");
    }
  }
  new (self) Node(std::move(node));
}

// Allocates an array whose memory is aligned to kAdoptableBytes. XLA requires
// this alignment for memory that it uses without a copy.
Array AllocateAligned(DType dtype, Shape shape) {
  constexpr uintptr_t kAdoptableBytes = 64;
  const int64_t count = ElementCount(shape);
  int64_t byte_count = 0;
  if (__builtin_mul_overflow(count, static_cast<int64_t>(DTypeBytes(dtype)),
                             &byte_count) ||
      byte_count > std::numeric_limits<int64_t>::max() - 64) {
    throw StatusError(ResourceExhaustedError(
        "allocate array: " + ShapeToString(shape) + ": no memory"));
  }
  auto memory = std::make_shared<Array>(
      Check(Array::Allocate(DType::kUint8, {byte_count})));
  const auto address = reinterpret_cast<uintptr_t>(memory->mutable_view().data);
  if (address % kAdoptableBytes != 0) {
    memory = std::make_shared<Array>(Check(Array::Allocate(
        DType::kUint8, {byte_count + int64_t{kAdoptableBytes}})));
  }
  char* data = memory->mutable_view().data;
  data += -reinterpret_cast<uintptr_t>(data) % kAdoptableBytes;
  Shape strides = ContiguousStrides(shape, DTypeBytes(dtype));
  return Array::Borrow({dtype, data, std::move(shape), std::move(strides)},
                       std::move(memory));
}

nb::object Empty(nb::handle shape, nb::handle dtype) {
  const DType stored = StoredDTypeOf(dtype, "empty");
  Shape extents = ShapeOf(shape, "empty: shape");
  for (const int64_t extent : extents) {
    if (extent < 0) ThrowValueError("empty: negative extent");
  }
  return ToNumpy(AllocateAligned(stored, std::move(extents)));
}

}  // namespace

void BindTree(nb::module_& module) {
  nb::class_<ArrayLeaf>(module, "ArrayLeaf")
      .def("__init__", &InitArrayLeaf, nb::arg("shape"), nb::arg("shards"),
           nb::kw_only(), nb::arg("kind") = "jax", nb::arg("immutable") = true,
           nb::arg("sharding_json") = nb::none(),
           nb::arg("prng_impl") = nb::none(),
           nb::arg("write_shape") = nb::none(), nb::arg("dtype") = nb::none());
  nb::class_<ExternalLeaf>(module, "ExternalLeaf")
      .def(
          "__init__",
          [](ExternalLeaf* self, std::string value_type) {
            new (self) ExternalLeaf{std::move(value_type)};
          },
          nb::arg("value_type"))
      .def_ro("value_type", &ExternalLeaf::value_type);
  nb::class_<Node>(module, "Node")
      .def("__init__", &InitNode, nb::arg("kind"), nb::arg("keys"),
           nb::arg("children"));
  nb::class_<BuiltTree>(module, "Tree")
      .def_ro("leaf_count", &BuiltTree::leaf_count)
      .def_ro("byte_count", &BuiltTree::byte_count)
      .def_ro("copied_bytes", &BuiltTree::copied_bytes)
      .def_rw("item_documents", &BuiltTree::item_documents);
  module.def(
      "build_tree",
      [](nb::handle tree, nb::object adapt, bool snapshot, bool strings,
         bool int_keys) {
        return BuildTree(tree, {std::move(adapt), snapshot, strings, int_keys});
      },
      nb::arg("tree").none(), nb::kw_only(), nb::arg("adapt"),
      nb::arg("snapshot") = false, nb::arg("strings") = true,
      nb::arg("int_keys") = false);
  module.def("empty", &Empty, nb::arg("shape"), nb::arg("dtype"));
}

}  // namespace holdfast::python
