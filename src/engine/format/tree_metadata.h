// `_METADATA`: the structure of one pytree item, as Orbax writes and reads it.
//
// One line of JSON: "tree_metadata" with one entry per leaf, in JAX's order,
// then the storage flags. Member names of the entries are for human readers;
// the path is rebuilt only from "key_metadata". A key that is an integer in
// Python has the type of a dict key and an additional member, which Orbax does
// not read: "holdfast_key": "int". An item with documents of holdfast
// (own_documents.h) lists them in the last member, "holdfast_documents".
// Source: orbax-checkpoint 0.12.8, _src/metadata/tree.py; files of 0.5.3 have
// only "tree_metadata" and "use_zarr3".
// Thread-safety: pure functions.
// Errors: DataLoss with member names and byte offset; Serialize cannot fail.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ground/tree/key_path.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"

namespace holdfast {

struct TreeMetadataEntry {
  KeyPath path;
  std::string value_type;  // ground/tree/value_type.h; others pass through
  // The value is in the msgpack file `checkpoint`, or the leaf has no value.
  bool skip_deserialize = false;
  std::optional<Shape> write_shape;
};

struct TreeMetadata {
  std::vector<TreeMetadataEntry> entries;  // in file order
  std::optional<bool> use_ocdbt;           // unset: determined from the files
  bool use_zarr3 = false;
  bool store_array_data_equal_to_fill_value = false;
  nlohmann::ordered_json custom_metadata;  // the user's; null: not present
  // Holdfast's own documents as an object; null if the item has none.
  nlohmann::ordered_json documents;
  // True if the file says that the documents are the item's own. Files written
  // by holdfast 0.2.0 or older, or by another library, do not say so.
  bool names_documents = false;
  // With rich types: the JSON text in "value_metadata_tree".
  std::optional<std::string> value_metadata_tree;
};

// Returns the text of `_METADATA` byte for byte as Orbax 0.12.8 writes it. An
// unset use_ocdbt is written as null.
// REQUIRES: keys and texts in UTF-8.
std::string SerializeTreeMetadata(const TreeMetadata& metadata);

// Accepts every version; unknown members are skipped. Refuses paths longer than
// kTreeDepthMax, two entries with the same keys, and members that occur twice.
Result<TreeMetadata> ParseTreeMetadata(std::string_view text);

}  // namespace holdfast
