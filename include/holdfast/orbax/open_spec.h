// OpenSpec: opens an array, a single JSON member or a key-value store from a
// spec in TensorStore's JSON (built by spec.h, Orbax or TensorStore).
//
// Array drivers: zarr, zarr3, cast over one of these, json. Key-value drivers:
// file, memory, gcs, s3, http (read only), ocdbt (over another driver), as
// objects or URLs ("file:///a/", "memory://", "gs://bucket/a/|ocdbt:b/"). Other
// drivers and members are refused by name. Object stores are accessed with the
// settings of remote.h, unless the spec sets endpoint, region or credentials.
//
// Writes to files take effect immediately. Writes to an OCDBT database are kept
// in memory until Commit writes them as one generation; without Commit they are
// lost. Reads through the same handle see uncommitted writes.
//
// Thread-safety: reads may run concurrently, also with writes to other chunks;
// during Commit, no other thread may use the handle.
// Ownership: handles own what they open; views are borrowed for the call.
// Units: boxes in elements.
// Errors: InvalidArgument for an invalid spec, with TensorStore's messages;
// NotFound, AlreadyExists, FailedPrecondition (stored metadata contradict the
// spec); Unimplemented `<name> is not part of this release yet`; DataLoss and
// those of the store.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/dtype.h"
#include "holdfast/export.h"
#include "holdfast/orbax/spec.h"
#include "holdfast/orbax/type_handlers.h"
#include "holdfast/sharding.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"
#include "holdfast/value_metadata.h"

namespace holdfast HOLDFAST_EXPORT {

// The databases of driver "memory"; handles that share a SpecMemory see the
// same keys.
class SpecMemory {
 public:
  static std::shared_ptr<SpecMemory> Make();
  virtual ~SpecMemory() = default;
};

struct OpenSpecOptions {
  TsContext context;
  std::shared_ptr<SpecMemory> memory;  // null: a new one
  // These override the spec's members of the same names.
  std::optional<bool> open;
  std::optional<bool> create;
  std::optional<bool> delete_existing;
  std::optional<bool> assume_metadata;
  const std::atomic<bool>* cancel = nullptr;  // borrowed by the handle
};

class SpecHandle {
 public:
  virtual ~SpecHandle() = default;

  virtual const std::string& driver() const = 0;  // "zarr", "cast", "json", ...
  // Returns the spec with everything known so far: dtype, shape and all
  // metadata.
  virtual std::string spec_json() const = 0;

  // Only for arrays. For a JSON member, the dtype is kUint8 and the shapes are
  // empty.
  virtual DType dtype() const = 0;  // with the cast applied
  virtual const Shape& shape() const = 0;
  virtual const Shape& read_chunk_shape() const = 0;
  virtual const Shape& write_chunk_shape() const = 0;
  virtual Result<Array> Read(const Shape& origin, const Shape& shape) const = 0;
  // Elements are cast to the target's dtype; in Write, from the source's dtype.
  virtual Status ReadInto(const Shape& origin,
                          const ArrayView& target) const = 0;
  virtual Status Write(const Shape& origin, const ConstArrayView& source) = 0;

  // Only for the json driver: read and write the member as text.
  virtual Result<std::string> ReadJson() const = 0;
  virtual Status WriteJson(std::string_view text) = 0;

  // Stores everything that was written so far.
  virtual Status Commit() = 0;
};

Result<std::unique_ptr<SpecHandle>> OpenSpec(
    const std::string& json, const OpenSpecOptions& options = {});

// Returns the metadata of an open array, with the name and directory in its
// parameter's `info`.
ArrayMetadata ArrayMetadataFromTensorstore(
    const SpecHandle& t, const ParamInfo& info,
    const std::optional<Sharding>& sharding = std::nullopt);

class KvStoreHandle {
 public:
  virtual ~KvStoreHandle() = default;

  virtual std::string spec_json() const = 0;
  // Returns the keys, relative to the spec's path, in byte order.
  virtual Result<std::vector<std::string>> List(
      std::string_view prefix = "") const = 0;
  // Reads a key's value. NotFound for an absent key.
  virtual Result<std::string> Read(std::string_view key) const = 0;
  virtual Status Write(std::string_view key, std::string_view value) = 0;
  // Deletes a key. Ok for an absent key.
  virtual Status Delete(std::string_view key) = 0;
  virtual Status Commit() = 0;
};

Result<std::unique_ptr<KvStoreHandle>> OpenKvStore(
    const std::string& json, const OpenSpecOptions& options = {});

struct StoredArraysOptions {
  bool use_ocdbt = true;                 // they are in the directory's database
  std::string metadata_key = ".zarray";  // name of the arrays' metadata files
  bool raise_array_data_missing_error = false;
};
// Opens the arrays with these names as a checkpoint, in the order of `names`.
// `directory` need not be an item. A missing array keeps its place, and has
// NotFound as its problem.
Result<std::unique_ptr<Checkpoint>> OpenStoredArrays(
    const std::string& directory, const std::vector<std::string>& names,
    const StoredArraysOptions& options);

}  // namespace holdfast
