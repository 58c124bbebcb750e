// OpenSpec: arrays, single JSON members and key-value stores by a spec in
// TensorStore's JSON (spec.h builds them, Orbax and TensorStore do as well).
//
// Array drivers: zarr, zarr3, cast over one of them, json. Key-value drivers:
// file, memory, gcs, s3, http (read only), ocdbt (over another one), as objects
// or URLs ("file:///a/", "memory://", "gs://bucket/a/|ocdbt:b/"). Other drivers
// and members are refused by name. Object stores are reached as remote.h says,
// but for what the spec itself says of endpoint, region and credentials.
//
// Writes to files take place at once. Writes to an OCDBT database are kept in
// memory and become one generation by Commit, which must be called: without it
// they are lost. Reads through the same handle see them before that.
//
// Thread-safety: reads may run concurrently, and with writes of other chunks;
// Commit needs the handle to itself. Ownership: handles own what they open;
// views are borrowed for the call. Units: boxes in elements.
// Errors: InvalidArgument for a spec that makes no sense, in TensorStore's
// words; NotFound, AlreadyExists, FailedPrecondition (metadata that is not as
// the spec says) for what it finds; Unimplemented `<name> is not part of this
// release yet`; DataLoss and those of the store.
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

// The databases of driver "memory"; handles that share it see the same keys.
class SpecMemory {
 public:
  static std::shared_ptr<SpecMemory> Make();
  virtual ~SpecMemory() = default;
};

struct OpenSpecOptions {
  TsContext context;
  std::shared_ptr<SpecMemory> memory;  // null: one of its own
  // These win over the members of the same names in the spec.
  std::optional<bool> open;
  std::optional<bool> create;
  std::optional<bool> delete_existing;
  std::optional<bool> assume_metadata;
  const std::atomic<bool>* cancel = nullptr;  // borrowed while it is open
};

class SpecHandle {
 public:
  virtual ~SpecHandle() = default;

  virtual const std::string& driver() const = 0;  // "zarr", "cast", "json", ...
  // The spec with everything known by now: dtype, shape and all metadata.
  virtual std::string spec_json() const = 0;

  // For arrays; a JSON member has neither (kUint8, no dimensions).
  virtual DType dtype() const = 0;  // as read and written: after a cast
  virtual const Shape& shape() const = 0;
  virtual const Shape& read_chunk_shape() const = 0;
  virtual const Shape& write_chunk_shape() const = 0;
  virtual Result<Array> Read(const Shape& origin, const Shape& shape) const = 0;
  // Elements are cast to the target's dtype and from the source's.
  virtual Status ReadInto(const Shape& origin,
                          const ArrayView& target) const = 0;
  virtual Status Write(const Shape& origin, const ConstArrayView& source) = 0;

  // For driver json: the member as text.
  virtual Result<std::string> ReadJson() const = 0;
  virtual Status WriteJson(std::string_view text) = 0;

  // Everything written so far exists when it returns.
  virtual Status Commit() = 0;
};

Result<std::unique_ptr<SpecHandle>> OpenSpec(
    const std::string& json, const OpenSpecOptions& options = {});

// The metadata that an opened array gives, and `info` of its parameter.
ArrayMetadata ArrayMetadataFromTensorstore(
    const SpecHandle& t, const ParamInfo& info,
    const std::optional<Sharding>& sharding = std::nullopt);

class KvStoreHandle {
 public:
  virtual ~KvStoreHandle() = default;

  virtual std::string spec_json() const = 0;
  // Keys without the spec's path, in byte order.
  virtual Result<std::vector<std::string>> List(
      std::string_view prefix = "") const = 0;
  // NotFound for an absent key.
  virtual Result<std::string> Read(std::string_view key) const = 0;
  virtual Status Write(std::string_view key, std::string_view value) = 0;
  // Deleting an absent key is ok.
  virtual Status Delete(std::string_view key) = 0;
  virtual Status Commit() = 0;
};

Result<std::unique_ptr<KvStoreHandle>> OpenKvStore(
    const std::string& json, const OpenSpecOptions& options = {});

struct StoredArraysOptions {
  bool use_ocdbt = true;                 // they lie in the directory's database
  std::string metadata_key = ".zarray";  // name of their metadata files
  bool raise_array_data_missing_error = false;
};
// A checkpoint of the arrays of these names, in their order, whether the
// directory is an item or not. An array that is not there keeps its place with
// NotFound as its problem.
Result<std::unique_ptr<Checkpoint>> OpenStoredArrays(
    const std::string& directory, const std::vector<std::string>& names,
    const StoredArraysOptions& options);

}  // namespace holdfast
