// TypeHandler: writes and reads the leaves of one type; and the registry that
// maps leaves to handlers. Names and rules are those of Orbax's type_handlers.
//
// A leaf of the caller's own type is an object leaf, Tree::Object(std::any):
//
//   class SparseHandler : public TypeHandler { ... };
//   registry->Add(LeafType::Of<SparseMatrix>(),
//                 std::make_shared<SparseHandler>());
//
// PyTreeCheckpointHandler (pytree_checkpoint_handler.h) saves all leaves that
// the standard handlers serve in one pass of the engine, and calls every other
// handler once with all of its leaves.
//
// The handlers below can also be used directly, on any directory: call
// Serialize, wait for the futures, call Finalize. With OCDBT, values can be
// read only after Finalize, which merges the database that they are read from.
//
// Thread-safety: a handler may be called from any thread, one call at a time
// for one directory; a registry may be read from any thread while nobody
// changes it.
// Ownership: infos and values are borrowed for the call.
// Units: bytes; shapes in elements.
// Errors: InvalidArgument with Orbax's messages ("Cannot pass TypeHandler input
// of length 0.", `Unknown type: "X". Must register a TypeHandler.`), NotFound,
// DataLoss and those of the store. After a failed Serialize the directory may
// hold new files, but no earlier value is lost. A handler that changes a
// directory removes its `_HOLDFAST_DIGESTS`.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/restore_args.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"
#include "holdfast/tree.h"
#include "holdfast/value_metadata.h"

namespace holdfast HOLDFAST_EXPORT {

// Limits the total bytes in flight of many calls.
class LimitInFlightBytes {
 public:
  // InvalidArgument `Must provide positive `num_bytes`. Found: N`.
  static Result<std::shared_ptr<LimitInFlightBytes>> Make(int64_t bytes_max);
  virtual ~LimitInFlightBytes() = default;
  virtual int64_t bytes_max() const = 0;
  // Waits until more than `requested_bytes` are free, and reserves
  // `requested_bytes`. InvalidArgument `Requested more bytes than we reserved
  // space for: N > MAX` unless `requested_bytes` is below the limit.
  virtual Status WaitForBytes(int64_t requested_bytes) = 0;
  virtual void ReleaseBytes(int64_t requested_bytes) = 0;
};

// The facts that a handler gets about a leaf, besides the user's arguments.
struct ParamInfo {
  std::string name;        // the parameter's: keys joined with "."
  std::string parent_dir;  // the item's directory; absolute
  std::vector<std::string> keypath;
  bool skip_deserialize = false;
  bool is_ocdbt_checkpoint = true;
  bool use_compression = true;
  bool use_zarr3 = false;
  std::optional<int64_t> ocdbt_target_data_file_size;
  std::string value_typestr;
  bool raise_array_data_missing_error = true;
  std::optional<Shape> write_shape;
  std::shared_ptr<LimitInFlightBytes> byte_limiter;  // null: no limit
  std::shared_ptr<LimitInFlightBytes> device_host_byte_limiter;

  std::string path() const { return parent_dir + "/" + name; }
};

// Fails with InvalidArgument, in Orbax's words, if a stored array cannot be
// restored with the wanted shape: because the rank differs, or if `strict`, the
// shape. `origin` and `extents` describe the first requested box.
Status CheckRestoreShape(const Shape& wanted, const Shape& stored, bool strict,
                         const Shape& origin, const Shape& extents);

// Where an array was expected.
struct ArrayPlace {
  std::string directory;  // the item's
  std::string name;       // the parameter's; may be empty
  std::string metadata_key = ".zarray";
  // Absent: taken from `_METADATA`, or else from the existing files.
  std::optional<bool> use_ocdbt;
};
// Returns the error with which Orbax reports a missing array: NotFound if files
// are missing (Orbax raises FileNotFoundError), InvalidArgument if a database
// lacks the array (ValueError). `problem` is the reason why the engine could
// not open the array, or ok if the engine found no such array. Returns ok if
// the array is not missing, so that `problem` explains the failure.
Status ExplainMissingArray(const ArrayPlace& place, const Status& problem);

// Work that Serialize has deferred; get() waits for it. Every future must be
// waited for before the item is finalized.
using CommitFuture = std::shared_future<Status>;

class TypeHandler {
 public:
  virtual ~TypeHandler() = default;

  // Returns the name that `_METADATA` records. It must be unique in a registry.
  virtual std::string typestr() const = 0;
  // Returns one entry per leaf, without reading the values.
  virtual Result<std::vector<ValueMetadata>> Metadata(
      std::span<const ParamInfo> infos) = 0;
  // Writes `values` (leaves of a Tree), or copies what it needs from them
  // before it returns; the futures then do the remaining work. `args` is empty
  // or has one element per value.
  virtual Result<std::vector<CommitFuture>> Serialize(
      std::span<const Tree* const> values, std::span<const ParamInfo> infos,
      std::span<const SaveArgs> args) = 0;
  // Reads the values, and returns one leaf per info.
  virtual Result<std::vector<Tree>> Deserialize(
      std::span<const ParamInfo> infos,
      std::span<const AnyRestoreArgs> args) = 0;
  // Completes the handler's files. Called when the futures of all handlers are
  // done, before the item counts as complete.
  virtual Status Finalize(const std::string& directory);
  // Returns (bytes written, bytes read) for each value, for limits and
  // progress.
  virtual std::vector<std::pair<uint64_t, uint64_t>> MemorySize(
      std::span<const Tree* const> values);
};

// InvalidArgument "Cannot pass TypeHandler input of length 0." or "Found input
// args with mismatched lengths.".
Status CheckInputArguments(std::initializer_list<size_t> lengths);
// InvalidArgument "Cannot save arrays with zero size: ParamInfo: [...]".
Status CheckArrayValues(std::span<const Tree* const> values,
                        std::span<const ParamInfo> infos);

// The value types of typed empties in `_METADATA`.
inline constexpr std::string_view kRestoreTypeNone = "None";
inline constexpr std::string_view kRestoreTypeDict = "Dict";
inline constexpr std::string_view kRestoreTypeList = "List";
// Returns the value type of a typed empty: "Dict", "List", "None", "Tuple";
// with support_rich_types, also "NamedTuple". InvalidArgument `X is not a
// supported empty aggregation type.`
Result<std::string> GetEmptyValueTypestr(const Tree& value,
                                         bool support_rich_types = false);
bool IsEmptyTypestr(std::string_view typestr);
// Returns the typed empty. InvalidArgument `Unrecognized typestr: X.`
Result<Tree> GetEmptyValueFromTypestr(std::string_view typestr,
                                      bool support_rich_types = false);

// Returns the type that a value becomes if its old checkpoint does not record a
// type: an array with a sharding for ArrayRestoreArgs, otherwise a host array.
RestoreType DefaultRestoreType(const AnyRestoreArgs& args);

// Returns true if the directory holds a merged database.
bool IsOcdbtCheckpoint(const std::string& directory);
// Options of MergeOcdbtPerProcessFiles.
struct OcdbtMergeOptions {
  // Check zarr 2 arrays: InvalidArgument "Save failed: 1/2 params are missing
  // .zarray in checkpoint:..." if one lacks its metadata or its chunks.
  bool enable_validation = false;
};
// Merges the databases `ocdbt.process_*` into one database in `directory`,
// which refers to their values in place. Existing keys are kept. Ok if there
// are no such databases. InvalidArgument for a key that two of them have.
Status MergeOcdbtPerProcessFiles(const std::string& directory,
                                 const OcdbtMergeOptions& options = {});
// Reads an item's `_sharding`: the JSON text of each parameter's sharding.
// Nullopt if the file does not exist.
Result<std::optional<std::map<std::string, std::string>>> RecordedShardings(
    const std::string& directory);
// Adds entries to `_sharding`.
Status RecordShardings(const std::string& directory,
                       const std::map<std::string, std::string>& shardings);
struct ParamWriteOptions {
  std::optional<std::string> metadata_key;
  std::optional<std::string> ocdbt_process_id;  // absent: the process index
  bool is_replica = false;  // into `ocdbt.process_replica_X`
  bool is_partial = false;  // other processes write the rest of the arrays
  bool is_primary = true;   // of these processes, the one that describes them
};
// How an array was stored.
struct WrittenParam {
  std::string name;
  Shape write_shape;
  Shape chunk_shape;
};
// Writes `params`, a dict of arrays and numbers by parameter name, as the
// handlers do; with OCDBT, as one more generation of the process's database.
// `info` says where and how to write; its name is not used. One call per
// directory at a time.
Result<std::vector<WrittenParam>> WriteParams(
    const Tree& params, const ParamInfo& info,
    const std::map<std::string, SaveArgs>& args,
    const ParamWriteOptions& options);
// Returns the X in this process's "ocdbt.process_X": its index, or the
// override. Nullopt without OCDBT.
std::optional<std::string> GetProcessIndexForSubdir(
    bool use_ocdbt,
    const std::optional<std::string>& override_ocdbt_process_id = {});

// The type of a leaf, as a registry sees it.
struct LeafType {
  // "int", "float", "complex", "bool", "bytes", "np.number", "np.ndarray",
  // "jax.Array", "str", "placeholder", "external", "reference"; for empties
  // "NoneType", "dict", "list", "tuple", "namedtuple"; for an object the name
  // of its C++ type.
  std::string name;
  std::type_index object_type = typeid(void);  // of the object in a std::any

  template <typename T>
  static LeafType Of() {
    return OfObject(typeid(T));
  }
  static LeafType OfObject(std::type_index type);
  static LeafType OfLeaf(const Tree& leaf);
  bool operator==(const LeafType&) const = default;
};

class TypeHandlerRegistry {
 public:
  using Matches = std::function<bool(const LeafType&)>;
  using Entry = std::pair<LeafType, std::shared_ptr<TypeHandler>>;

  // Makes a registry with only these handlers.
  explicit TypeHandlerRegistry(std::vector<Entry> entries = {});

  // Adds a handler. `func` decides which leaf types it serves. If `func` is
  // empty, the handler serves only `type`, and for "int" also "bool", as in
  // Python. The first match wins. InvalidArgument: `A TypeHandler for "T" is
  // already registered.`, or `Type "T" has a `typestr` ("X") which collides
  // with that of an existing TypeHandler.`, unless `override_existing`.
  Status Add(const LeafType& type, std::shared_ptr<TypeHandler> handler,
             Matches func = {}, bool override_existing = false);
  // InvalidArgument `Unknown type: "T". Must register a TypeHandler.`
  Result<std::shared_ptr<TypeHandler>> Get(const LeafType& type) const;
  Result<std::shared_ptr<TypeHandler>> Get(std::string_view typestr) const;
  bool Has(const LeafType& type) const;
  bool Has(std::string_view typestr) const;

 private:
  struct Row {
    LeafType type;
    Matches matches;
    std::shared_ptr<TypeHandler> handler;
  };
  std::vector<Row> rows_;
  std::vector<std::pair<std::string, std::shared_ptr<TypeHandler>>> typestrs_;
};

// Makes a registry with the standard handlers, or with the given entries.
std::shared_ptr<TypeHandlerRegistry> CreateTypeHandlerRegistry();
std::shared_ptr<TypeHandlerRegistry> CreateTypeHandlerRegistry(
    std::vector<TypeHandlerRegistry::Entry> entries);

// Returns the process-wide registry, which PyTreeCheckpointHandler uses by
// default. It must not be changed while a save or restore runs.
std::shared_ptr<TypeHandlerRegistry> GlobalTypeHandlerRegistry();
Status RegisterTypeHandler(const LeafType& type,
                           std::shared_ptr<TypeHandler> handler,
                           TypeHandlerRegistry::Matches func = {},
                           bool override_existing = false);
Result<std::shared_ptr<TypeHandler>> GetTypeHandler(const LeafType& type);
bool HasTypeHandler(const LeafType& type);

// Options of the standard handlers.
struct StandardHandlerOptions {
  std::optional<std::string> metadata_key;
};
// Sets these options of the standard handlers in the global registry.
void RegisterStandardHandlersWithOptions(
    const StandardHandlerOptions& options = {});

// Host arrays (np.ndarray). Accepts scalars and array leaves of both kinds;
// returns host arrays. Serialize writes the arrays before it returns; with
// OCDBT, as one more generation of the process's database. It replaces an
// earlier array with the same name.
class NumpyHandler : public TypeHandler {
 public:
  struct Options {
    // Name of the array metadata file; absent: ".zarray" or "zarr.json".
    std::optional<std::string> metadata_key;
    std::optional<std::string> ocdbt_process_id;  // absent: the process index
  };
  NumpyHandler() : NumpyHandler(Options()) {}
  explicit NumpyHandler(Options options) : options_(std::move(options)) {}

  std::string typestr() const override { return "np.ndarray"; }
  Result<std::vector<ValueMetadata>> Metadata(
      std::span<const ParamInfo> infos) override;
  Result<std::vector<CommitFuture>> Serialize(
      std::span<const Tree* const> values, std::span<const ParamInfo> infos,
      std::span<const SaveArgs> args) override;
  Result<std::vector<Tree>> Deserialize(
      std::span<const ParamInfo> infos,
      std::span<const AnyRestoreArgs> args) override;
  // Merges the processes' databases.
  Status Finalize(const std::string& directory) override;

  const Options& options() const { return options_; }

 protected:
  Options options_;
};

// Python numbers and numpy elements, stored as arrays without dimensions.
// Returns Python numbers, converted if restore_type says so.
class ScalarHandler : public NumpyHandler {
 public:
  using NumpyHandler::NumpyHandler;

  std::string typestr() const override { return "scalar"; }
  Result<std::vector<ValueMetadata>> Metadata(
      std::span<const ParamInfo> infos) override;
  // InvalidArgument "Restored result is not a scalar."
  Result<std::vector<Tree>> Deserialize(
      std::span<const ParamInfo> infos,
      std::span<const AnyRestoreArgs> args) override;
};

// Arrays with a sharding (jax.Array), which is recorded in `_sharding`.
class ArrayHandler : public TypeHandler {
 public:
  struct Options {
    std::optional<std::string> metadata_key;
    // In Orbax several processes write together. Here process 0 writes
    // everything, and Serialize returns InvalidArgument for another host or
    // replica.
    std::optional<int> primary_host = 0;
    std::optional<int> replica_id = 0;
    bool enable_write_sharding_file = true;
    // Keep `array_metadatas/process_0`, which records the PRNG implementation
    // of keys.
    bool enable_array_metadata = true;
  };
  ArrayHandler() : ArrayHandler(Options()) {}
  explicit ArrayHandler(Options options) : options_(std::move(options)) {}

  std::string typestr() const override { return "jax.Array"; }
  // NotFound if `_sharding` exists but has no entry for the array.
  Result<std::vector<ValueMetadata>> Metadata(
      std::span<const ParamInfo> infos) override;
  Result<std::vector<CommitFuture>> Serialize(
      std::span<const Tree* const> values, std::span<const ParamInfo> infos,
      std::span<const SaveArgs> args) override;
  // Returns one jax.Array leaf per info. The sharding is that of the args, or
  // else the recorded one. If devices hold different boxes, the leaf is a
  // Tree::ShardedArray with one shard per box, in the order of ShardBoxes
  // without replicas; each box is read once.
  //
  // InvalidArgument "Must provide ArrayRestoreArgs to restore as jax.Array." if
  // `args` is empty, "Sharding of jax.Array cannot be None..." and "Requested
  // shape: (16,) is not compatible with the stored shape: (8,).
  // Truncating/padding is disabled..."
  Result<std::vector<Tree>> Deserialize(
      std::span<const ParamInfo> infos,
      std::span<const AnyRestoreArgs> args) override;
  Status Finalize(const std::string& directory) override;

  const Options& options() const { return options_; }

 protected:
  Options options_;
};

// In Orbax one replica reads, and sends its data to the other replicas. Here
// one process reads every box only once anyway. The args are checked as in
// Orbax.
class SingleReplicaArrayHandler : public ArrayHandler {
 public:
  struct Options {
    int replica_axis_index = 0;
    int primary_replica_id = 0;
    ArrayHandler::Options array;
  };
  SingleReplicaArrayHandler() : SingleReplicaArrayHandler(Options()) {}
  explicit SingleReplicaArrayHandler(Options options)
      : ArrayHandler(options.array), replica_options_(std::move(options)) {}

  Result<std::vector<Tree>> Deserialize(
      std::span<const ParamInfo> infos,
      std::span<const AnyRestoreArgs> args) override;

 private:
  Options replica_options_;
};

// Strings, stored as members of one JSON file.
class StringHandler : public TypeHandler {
 public:
  explicit StringHandler(std::string filename = "_strings.json")
      : filename_(std::move(filename)) {}

  std::string typestr() const override { return "string"; }
  Result<std::vector<ValueMetadata>> Metadata(
      std::span<const ParamInfo> infos) override;
  Result<std::vector<CommitFuture>> Serialize(
      std::span<const Tree* const> values, std::span<const ParamInfo> infos,
      std::span<const SaveArgs> args) override;
  Result<std::vector<Tree>> Deserialize(
      std::span<const ParamInfo> infos,
      std::span<const AnyRestoreArgs> args) override;

  const std::string& filename() const { return filename_; }

 private:
  const std::string filename_;
};

// Placeholders have no value, so only Deserialize works.
class PlaceholderHandler : public TypeHandler {
 public:
  std::string typestr() const override { return "placeholder"; }
  Result<std::vector<ValueMetadata>> Metadata(
      std::span<const ParamInfo> infos) override;
  Result<std::vector<CommitFuture>> Serialize(
      std::span<const Tree* const> values, std::span<const ParamInfo> infos,
      std::span<const SaveArgs> args) override;
  Result<std::vector<Tree>> Deserialize(
      std::span<const ParamInfo> infos,
      std::span<const AnyRestoreArgs> args) override;
};

}  // namespace holdfast
