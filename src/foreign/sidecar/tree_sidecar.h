// The sidecar: everything about a tree that a foreign format cannot express, as
// one JSON document next to or inside the checkpoint. It has key paths, kinds,
// dtypes that the format lacks, small values, and order.
//
// Where it is:
// - safetensors: `__metadata__`, or the index's "metadata" if there are several
//   files, under kSidecarKey;
// - npz: the member kSidecarKey + ".json";
// - dcp and megatron-zarr: the file kSidecarFile;
// - Orbax: one of the item's own documents (own_documents.h), under
//   kSidecarKey.
//
// Thread-safety: pure functions of their arguments.
// Errors: DataLoss for a text that is not a sidecar; FailedPrecondition for a
// sidecar that does not fit the tensors, with how to read them without it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/format/own_documents.h"
#include "holdfast/checkpoint.h"
#include "stores/place/place.h"

namespace holdfast {

inline constexpr std::string_view kSidecarFile = "_HOLDFAST_TREE";

struct SidecarLeaf {
  std::vector<std::string> key;
  std::vector<KeyKind> key_kinds;  // one per key; empty: all names
  ValueKind kind = ValueKind::kArray;
  std::optional<DType> dtype;  // arrays and scalars
  Shape shape;
  // The name of the tensor whose bits are the elements (arrays, scalars) or the
  // bytes of the text (other kinds; uint8 with one axis). If it is empty, the
  // value is `text`.
  std::string stored;
  // Text, bytes, the element of a scalar, the torch file of an object.
  std::string text;
  std::string value_type;
  std::string prng_impl;
  std::string sharding_json;
  std::optional<Shape> write_shape;

  bool operator==(const SidecarLeaf&) const = default;
};

struct TreeSidecar {
  std::vector<SidecarLeaf> leaves;  // in the order of leaves()
  // The sidecar has only the leaves that differ. Every other tensor is a leaf
  // in the form and at the place that it has in the format.
  bool is_partial = false;
  std::map<std::string, std::string> items;  // as CheckpointInfo::items
  // JSON texts, or empty, as in CheckpointInfo.
  std::string custom_metadata;
  std::string item_custom_metadata;
  std::string value_metadata_tree;

  bool operator==(const TreeSidecar&) const = default;
};

// Returns one line of JSON.
std::string SidecarText(const TreeSidecar& sidecar);
Result<TreeSidecar> ParseSidecar(std::string_view text);

// Returns a checkpoint with the leaves of the sidecar, whose values are read
// from `base`. Every tensor of `base` must be in the sidecar (unless the
// sidecar is partial), and every tensor of the sidecar in `base`, with the same
// size.
Result<std::unique_ptr<Checkpoint>> WithSidecar(
    std::unique_ptr<Checkpoint> base, const TreeSidecar& sidecar);

// Like WithSidecar, but parses the sidecar from `text`. `where` names the text
// in a parse error.
Result<std::unique_ptr<Checkpoint>> WithSidecarText(
    std::unique_ptr<Checkpoint> base, std::string_view text,
    std::string_view where);

// Like WithSidecar, but reads the sidecar from the file kSidecarFile of
// `directory`. Returns `base` itself if there is no such file.
Result<std::unique_ptr<Checkpoint>> WithSidecarFile(
    std::unique_ptr<Checkpoint> base, const Place& directory);

// The dtype with which a format stores elements of `dtype`: itself if possible,
// otherwise raw bits that only the sidecar distinguishes from numbers.
struct StoredAs {
  DType dtype = DType::kUint8;
  // A last axis with this extent is added (complex as two floats); 0: no axis.
  int64_t last_axis = 0;

  bool operator==(const StoredAs&) const = default;
};
// Returns how a format stores elements of `dtype`. `format` is a name as in
// CheckpointInfo::format. For "orbax", "ocdbt", …, every dtype is stored as
// itself.
StoredAs StorableDType(std::string_view format, DType dtype);

// Returns `shape` with the last axis of `stored`.
Shape StorableShape(const StoredAs& stored, Shape shape);

}  // namespace holdfast
