// ArrayIndex: the zarr arrays of a store by parameter name, found in one pass
// over its keys (OCDBT) or one look at each name (directories).
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
  // Walks the whole directory.
  static Result<ArrayIndex> FromDirectory(Store& store);

  // Sorted by name.
  const std::vector<StoredArray>& arrays() const { return arrays_; }
  // Null when no array has this name.
  const StoredArray* Find(std::string_view name) const;

 private:
  struct Builder;
  std::vector<StoredArray> arrays_;
};

// One array by name; NotFound when neither metadata file exists.
Result<StoredArray> ReadStoredArray(Store& store, const std::string& name);
// Many arrays, asked for at once where the store is a server; in the order of
// the names. `prefers_zarr3`: which of the two files is looked for first.
std::vector<Result<StoredArray>> ReadStoredArrays(
    Store& store, const std::vector<std::string>& names, bool prefers_zarr3);
// Reads an array whose metadata file has this name; its text says its format.
Result<StoredArray> ReadStoredArray(Store& store, const std::string& name,
                                    const std::string& metadata_key);

// "name/", or "" for a bare array. A name that ends in '/' gets no second one,
// as in TensorStore.
std::string ArrayPrefix(std::string_view name);

}  // namespace holdfast
