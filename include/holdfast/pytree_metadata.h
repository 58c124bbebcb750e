// Describes the pytree item in a directory without its values: the result of
// PyTreeCheckpointHandler::Metadata, and parts of it that are passed to the
// caller's functions.
//
// Thread-safety: values and pure functions. Units: shapes in elements.
// Errors: those of RecordedContainers.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"
#include "holdfast/tree.h"
#include "holdfast/value_metadata.h"

namespace holdfast HOLDFAST_EXPORT {

// An entry in `_METADATA`.
struct ValueMetadataEntry {
  std::string value_type;  // "np.ndarray", "jax.Array", "scalar", ...
  // True if the value is in the msgpack file, or is a typed empty without a
  // stored value.
  bool skip_deserialize = false;
  std::optional<Shape> write_shape;

  bool operator==(const ValueMetadataEntry&) const = default;
};

struct PyTreeMetadata {
  // As stored (tuples are lists, named tuples are dicts). Each leaf is an int64
  // scalar: its index in `values`. None and empty containers are kept.
  Tree structure;
  std::vector<ValueMetadata> values;
  std::string custom_metadata;  // a JSON object, or empty
  bool use_zarr3 = false;
  bool use_ocdbt = true;

  // Returns the metadata at a path in `structure`; null if the path has no
  // value.
  const ValueMetadata* Find(const std::vector<std::string>& path) const;
};

class Checkpoint;

// Returns the tree of an open item, with the container types that were saved.
// Each leaf, including typed empties, is an int64 scalar: its index in
// leaves(). REQUIRES: the item's `value_metadata_tree` is not empty. DataLoss
// if that text is not in Orbax's form.
Result<Tree> RecordedContainers(const Checkpoint& checkpoint);

// How one process wrote one jax.Array: a row in `array_metadatas/process_N`.
struct SerializedArrayMetadata {
  std::string param_name;
  Shape write_shape;
  Shape chunk_shape;
  // JSON text: "null", or `{"random_key_impl": "threefry2x32"}`.
  std::string ext_metadata = "null";
};

// Rows by process index.
using ArrayMetadatasByProcess =
    std::map<int, std::vector<SerializedArrayMetadata>>;

}  // namespace holdfast
