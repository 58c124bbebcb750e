// The sidecar: what a foreign format cannot say of a tree, as one JSON document
// kept beside or inside it: key paths, kinds, dtypes that it lacks, small
// values, and order.
//
// Where it lies: safetensors: `__metadata__` (sharded: the index's "metadata")
// under kSidecarKey; npz: the member kSidecarKey + ".json"; dcp and
// megatron-zarr: the file kSidecarFile; Orbax: a document of the item's own
// (own_documents.h), under kSidecarKey.
// Thread-safety: pure functions of their arguments.
// Errors: DataLoss for a text that is not a sidecar; FailedPrecondition for one
// that does not fit the tensors, saying how to read them without it.
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
  std::vector<KeyKind> key_kinds;  // one a key; empty: all names
  ValueKind kind = ValueKind::kArray;
  std::optional<DType> dtype;  // arrays and scalars
  Shape shape;
  // The tensor of the format whose bits are the elements (arrays, scalars) or
  // the bytes of the text (the others, uint8 of one axis). Empty: the value is
  // `text`.
  std::string stored;
  // Text, bytes, a scalar's element, the torch file of an object.
  std::string text;
  std::string value_type;
  std::string prng_impl;
  std::string sharding_json;
  std::optional<Shape> write_shape;

  bool operator==(const SidecarLeaf&) const = default;
};

struct TreeSidecar {
  std::vector<SidecarLeaf> leaves;  // in the order of leaves()
  // It has only the leaves that differ: every other tensor is a leaf as the
  // format has it, in its place.
  bool is_partial = false;
  std::map<std::string, std::string> items;  // as CheckpointInfo::items
  // JSON texts, or empty, as in CheckpointInfo.
  std::string custom_metadata;
  std::string item_custom_metadata;
  std::string value_metadata_tree;

  bool operator==(const TreeSidecar&) const = default;
};

// One line of JSON.
std::string SidecarText(const TreeSidecar& sidecar);
Result<TreeSidecar> ParseSidecar(std::string_view text);

// The checkpoint with leaves() as the sidecar says; `base` is read through it.
// Every tensor of `base` must be in the sidecar (unless it is partial) and the
// other way round, with as many bytes.
Result<std::unique_ptr<Checkpoint>> WithSidecar(
    std::unique_ptr<Checkpoint> base, const TreeSidecar& sidecar);

// The same with the sidecar's text; `where` names it in an error of parsing.
Result<std::unique_ptr<Checkpoint>> WithSidecarText(
    std::unique_ptr<Checkpoint> base, std::string_view text,
    std::string_view where);

// The same with the sidecar in the file kSidecarFile of `directory`; `base`
// itself where there is no such file.
Result<std::unique_ptr<Checkpoint>> WithSidecarFile(
    std::unique_ptr<Checkpoint> base, const Place& directory);

// The dtype as which a format stores elements of `dtype`: itself if it can,
// otherwise raw bits that only the sidecar can tell from numbers.
struct StoredAs {
  DType dtype = DType::kUint8;
  // A last axis of this extent is added; 0: none (complex as two floats).
  int64_t last_axis = 0;

  bool operator==(const StoredAs&) const = default;
};
// `format` as CheckpointInfo::format names it. For "orbax", "ocdbt", … every
// dtype is itself.
StoredAs StorableDType(std::string_view format, DType dtype);

// `shape` with the last axis of `stored`.
Shape StorableShape(const StoredAs& stored, Shape shape);

}  // namespace holdfast
