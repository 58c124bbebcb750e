// The contents of a pytree item in a directory, without reading any value: the
// result of PyTreeCheckpointHandler::Metadata and the parts of it that
// functions of the caller's see.
//
// Thread-safety: values and pure functions. Units: shapes in elements. Errors:
// those of RecordedContainers.
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

// An entry of `_METADATA`.
struct ValueMetadataEntry {
  std::string value_type;  // "np.ndarray", "jax.Array", "scalar", ...
  // The value lies in the msgpack file, or it is an empty and has none.
  bool skip_deserialize = false;
  std::optional<Shape> write_shape;

  bool operator==(const ValueMetadataEntry&) const = default;
};

struct PyTreeMetadata {
  // As stored (tuples are lists, named tuples dicts); each leaf is an int64
  // scalar: its index in `values`. None and empty containers are themselves.
  Tree structure;
  std::vector<ValueMetadata> values;
  std::string custom_metadata;  // a JSON object, or empty
  bool use_zarr3 = false;
  bool use_ocdbt = true;

  // The metadata at a path of `structure`; null when no value is there.
  const ValueMetadata* Find(const std::vector<std::string>& path) const;
};

class Checkpoint;

// The tree of an opened item in the containers that were saved, each leaf an
// int64 scalar: its index in leaves(), empties too. For items whose
// `value_metadata_tree` is not empty; DataLoss where that is not as Orbax
// writes it.
Result<Tree> RecordedContainers(const Checkpoint& checkpoint);

// How one process wrote one jax.Array: a row of `array_metadatas/process_N`.
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
