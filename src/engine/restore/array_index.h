// ArrayIndex: the zarr arrays of a store by parameter name, found in one pass
// over its keys (OCDBT) or by one lookup per name (directories).
//
// Thread-safety: immutable after construction.
// Errors: those of the store.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/ocdbt/database.h"
#include "ground/base/bytes.h"
#include "stores/storage/store.h"

namespace holdfast {

struct StoredArray {
  std::string name;  // "" for a bare array
  Bytes metadata;    // text of .zarray or zarr.json
  int zarr_format = 0;
  uint64_t stored_bytes = 0;  // of its chunks and metadata
};

class ArrayIndex {
 public:
  static Result<ArrayIndex> FromDatabase(ocdbt::Database& database,
                                         Store& store);
  // Walks the complete directory.
  static Result<ArrayIndex> FromDirectory(Store& store);

  // Returns all arrays, sorted by name.
  const std::vector<StoredArray>& arrays() const { return arrays_; }
  // Returns null if no array has this name.
  const StoredArray* Find(std::string_view name) const;

 private:
  struct Builder;
  std::vector<StoredArray> arrays_;
};

// Finds one array by name; NotFound if neither metadata file exists.
Result<StoredArray> ReadStoredArray(Store& store, const std::string& name);
// Finds many arrays, with concurrent requests if the store is a server. Returns
// them in the order of `names`. `prefers_zarr3` says which of the two files is
// tried first.
std::vector<Result<StoredArray>> ReadStoredArrays(
    Store& store, const std::vector<std::string>& names, bool prefers_zarr3);
// Reads an array by the name of its metadata file; the text gives its format.
Result<StoredArray> ReadStoredArray(Store& store, const std::string& name,
                                    const std::string& metadata_key);

// Returns "name/", or "" for a bare array. A name that already ends in '/' gets
// no second one, as in TensorStore.
std::string ArrayPrefix(std::string_view name);

}  // namespace holdfast
