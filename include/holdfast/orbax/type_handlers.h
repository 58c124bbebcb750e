// TypeHandler: how the leaves of one type are written and read, and the
// registry that says which handler serves which leaf. The names and rules of
// Orbax's type_handlers.
//
// A leaf type of the caller's own is an object leaf, Tree::Object(std::any):
//
//   class SparseHandler : public TypeHandler { ... };
//   registry->Add(LeafType::Of<SparseMatrix>(),
//                 std::make_shared<SparseHandler>());
//
// PyTreeCheckpointHandler (pytree_checkpoint_handler.h) saves all leaves of the
// standard handlers in one pass of the engine and calls every other handler
// once with all of its leaves.
//
// The handlers below also work by themselves, on any directory: Serialize, wait
// for the futures, Finalize. With OCDBT, values are read from the database that
// Finalize merges, so they are there only after it.
//
// Thread-safety: a handler may be called from any thread, one call at a time
// for one directory; a registry may be read from any thread while nobody
// changes it. Ownership: infos and values are borrowed for the call.
// Units: bytes; shapes in elements.
// Errors: InvalidArgument with Orbax's texts ("Cannot pass TypeHandler input of
// length 0.", `Unknown type: "X". Must register a TypeHandler.`), NotFound,
// DataLoss and those of the store. After a failed Serialize the directory may
// hold files, but no earlier value is lost. `_HOLDFAST_DIGESTS` of a directory
// that they change is removed.
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

// Bounds the bytes in flight of many calls together.
class LimitInFlightBytes {
 public:
  // InvalidArgument `Must provide positive `num_bytes`. Found: N`.
  static Result<std::shared_ptr<LimitInFlightBytes>> Make(int64_t bytes_max);
  virtual ~LimitInFlightBytes() = default;
  virtual int64_t bytes_max() const = 0;
  // Waits until more than `requested_bytes` are free, and takes them.
  // InvalidArgument `Requested more bytes than we reserved space for: N > MAX`
  // when they are not below the bound.
  virtual Status WaitForBytes(int64_t requested_bytes) = 0;
  virtual void ReleaseBytes(int64_t requested_bytes) = 0;
};

// The facts about a leaf that a handler gets beside the user's arguments.
struct ParamInfo {
  std::string name;        // of the parameter: keys joined with "."
  std::string parent_dir;  // absolute; the item's directory
  std::vector<std::string> keypath;
  bool skip_deserialize = false;
  bool is_ocdbt_checkpoint = true;
  bool use_compression = true;
  bool use_zarr3 = false;
  std::optional<int64_t> ocdbt_target_data_file_size;
  std::string value_typestr;
  bool raise_array_data_missing_error = true;
  std::optional<Shape> write_shape;
  std::shared_ptr<LimitInFlightBytes> byte_limiter;  // null: no bound
  std::shared_ptr<LimitInFlightBytes> device_host_byte_limiter;

  std::string path() const { return parent_dir + "/" + name; }
};

// Refuses a shape that a stored array cannot be restored as, in Orbax's words:
// another one, when `strict`, or another rank. `origin` and `extents` are of
// the first box that is wanted. InvalidArgument.
Status CheckRestoreShape(const Shape& wanted, const Shape& stored, bool strict,
                         const Shape& origin, const Shape& extents);

// Where an array was looked for.
struct ArrayPlace {
  std::string directory;  // the item's
  std::string name;       // of the parameter; may be empty
  std::string metadata_key = ".zarray";
  // Absent: as `_METADATA` records it, or else as the files show.
  std::optional<bool> use_ocdbt;
};
// Orbax's words for an array that is not there: NotFound where files are gone
// (there a FileNotFoundError), InvalidArgument where a database lacks it (a
// ValueError). Ok when `problem`, why the engine could not open it, says it; an
// ok `problem`: the engine knows no such array.
Status ExplainMissingArray(const ArrayPlace& place, const Status& problem);

// Work that Serialize left for later; get() waits for it. Every future must be
// waited for before the item is finalized.
using CommitFuture = std::shared_future<Status>;

class TypeHandler {
 public:
  virtual ~TypeHandler() = default;

  // Spelled as `_METADATA` records it; no two handlers of a registry share one.
  virtual std::string typestr() const = 0;
  // One a leaf, without reading its value.
  virtual Result<std::vector<ValueMetadata>> Metadata(
      std::span<const ParamInfo> infos) = 0;
  // Takes what it needs of `values` (leaves of a Tree) before it returns.
  // `args` is empty or has one element a value.
  virtual Result<std::vector<CommitFuture>> Serialize(
      std::span<const Tree* const> values, std::span<const ParamInfo> infos,
      std::span<const SaveArgs> args) = 0;
  // One leaf an info.
  virtual Result<std::vector<Tree>> Deserialize(
      std::span<const ParamInfo> infos,
      std::span<const AnyRestoreArgs> args) = 0;
  // Called after all futures of all handlers, before the item counts as
  // complete.
  virtual Status Finalize(const std::string& directory);
  // (bytes written, bytes read) of each value; for budgets and progress.
  virtual std::vector<std::pair<uint64_t, uint64_t>> MemorySize(
      std::span<const Tree* const> values);
};

// InvalidArgument "Cannot pass TypeHandler input of length 0." or "Found input
// args with mismatched lengths.".
Status CheckInputArguments(std::initializer_list<size_t> lengths);
// InvalidArgument "Cannot save arrays with zero size: ParamInfo: [...]".
Status CheckArrayValues(std::span<const Tree* const> values,
                        std::span<const ParamInfo> infos);

// The value types of empties in `_METADATA`.
inline constexpr std::string_view kRestoreTypeNone = "None";
inline constexpr std::string_view kRestoreTypeDict = "Dict";
inline constexpr std::string_view kRestoreTypeList = "List";
// "Dict", "List", "None", "Tuple"; "NamedTuple" with support_rich_types.
// InvalidArgument `X is not a supported empty aggregation type.`
Result<std::string> GetEmptyValueTypestr(const Tree& value,
                                         bool support_rich_types = false);
bool IsEmptyTypestr(std::string_view typestr);
// InvalidArgument `Unrecognized typestr: X.`
Result<Tree> GetEmptyValueFromTypestr(std::string_view typestr,
                                      bool support_rich_types = false);

// The type that a value becomes when its old checkpoint records none: an array
// with a sharding for ArrayRestoreArgs, a host array otherwise.
RestoreType DefaultRestoreType(const AnyRestoreArgs& args);

// True when the directory holds a merged database.
bool IsOcdbtCheckpoint(const std::string& directory);
// Merges `ocdbt.process_*` into one database in `directory`, which refers to
// their values where they lie. Keys that it had before stay. Ok where there are
// no such databases. InvalidArgument for a key that two of them have.
struct OcdbtMergeOptions {
  // InvalidArgument "Save failed: 1/2 params are missing .zarray in
  // checkpoint:..." for zarr 2 arrays without metadata, or without chunks.
  bool enable_validation = false;
};
Status MergeOcdbtPerProcessFiles(const std::string& directory,
                                 const OcdbtMergeOptions& options = {});
// `_sharding` of an item: the JSON text of each parameter's sharding; absent
// when there is no such file.
Result<std::optional<std::map<std::string, std::string>>> RecordedShardings(
    const std::string& directory);
// Adds entries to it.
Status RecordShardings(const std::string& directory,
                       const std::map<std::string, std::string>& shardings);
struct ParamWriteOptions {
  std::optional<std::string> metadata_key;
  std::optional<std::string> ocdbt_process_id;  // absent: the process index
  bool is_replica = false;  // into `ocdbt.process_replica_X`
  bool is_partial = false;  // other processes write the rest of the arrays
  bool is_primary = true;   // of those, the one that describes them
};
// How an array was stored.
struct WrittenParam {
  std::string name;
  Shape write_shape;
  Shape chunk_shape;
};
// Writes `params`, a dict of arrays and numbers by the parameters' names, as
// the handlers do: with OCDBT as one more generation of the process's database.
// `info` says where and how, and has no name. One call a directory at a time.
Result<std::vector<WrittenParam>> WriteParams(
    const Tree& params, const ParamInfo& info,
    const std::map<std::string, SaveArgs>& args,
    const ParamWriteOptions& options);
// The X of this process's "ocdbt.process_X": its index, or the override; absent
// without OCDBT.
std::optional<std::string> GetProcessIndexForSubdir(
    bool use_ocdbt,
    const std::optional<std::string>& override_ocdbt_process_id = {});

// The type of a leaf, as a registry sees it.
struct LeafType {
  // "int", "float", "complex", "bool", "bytes", "np.number", "np.ndarray",
  // "jax.Array", "str", "placeholder", "external", "reference"; "NoneType",
  // "dict", "list", "tuple", "namedtuple" of empties; of an object the name of
  // its C++ type.
  std::string name;
  std::type_index object_type = typeid(void);  // of an object's std::any

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

  // Holds these handlers only.
  explicit TypeHandlerRegistry(std::vector<Entry> entries = {});

  // `func` decides which leaf types the handler serves; absent: only `type`,
  // and for "int" also "bool", as in Python. The first match wins.
  // InvalidArgument: `A TypeHandler for "T" is already registered.`, or `Type
  // "T" has a `typestr` ("X") which collides with that of an existing
  // TypeHandler.`, unless `override_existing`.
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

// Has the standard handlers for every standard leaf type.
std::shared_ptr<TypeHandlerRegistry> CreateTypeHandlerRegistry();
std::shared_ptr<TypeHandlerRegistry> CreateTypeHandlerRegistry(
    std::vector<TypeHandlerRegistry::Entry> entries);

// The process-wide registry that PyTreeCheckpointHandler uses unless it is
// given one. Not to be changed while a save or restore runs.
std::shared_ptr<TypeHandlerRegistry> GlobalTypeHandlerRegistry();
Status RegisterTypeHandler(const LeafType& type,
                           std::shared_ptr<TypeHandler> handler,
                           TypeHandlerRegistry::Matches func = {},
                           bool override_existing = false);
Result<std::shared_ptr<TypeHandler>> GetTypeHandler(const LeafType& type);
bool HasTypeHandler(const LeafType& type);

// Sets the options of the standard handlers in the global registry.
struct StandardHandlerOptions {
  std::optional<std::string> metadata_key;
};
void RegisterStandardHandlersWithOptions(
    const StandardHandlerOptions& options = {});

// Host arrays (np.ndarray). Array leaves of both kinds and scalars are taken;
// host arrays are given back. Serialize has written them when it returns: with
// OCDBT as one more generation of the process's database. An earlier array of
// the name is replaced.
class NumpyHandler : public TypeHandler {
 public:
  struct Options {
    // Name of the file of array metadata; absent: ".zarray" or "zarr.json".
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
  // Merges the databases of the processes.
  Status Finalize(const std::string& directory) override;

  const Options& options() const { return options_; }

 protected:
  Options options_;
};

// Python's numbers, and elements of numpy: arrays of no dimensions. Given back
// as Python's numbers, converted where restore_type says so.
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

// Arrays with a sharding (jax.Array); it is recorded in `_sharding`.
class ArrayHandler : public TypeHandler {
 public:
  struct Options {
    std::optional<std::string> metadata_key;
    // Processes write together in Orbax; holdfast is process 0 and writes all.
    // Serialize is InvalidArgument for another host or replica.
    std::optional<int> primary_host = 0;
    std::optional<int> replica_id = 0;
    bool enable_write_sharding_file = true;
    // Keep `array_metadatas/process_0`, where the kind of PRNG keys is.
    bool enable_array_metadata = true;
  };
  ArrayHandler() : ArrayHandler(Options()) {}
  explicit ArrayHandler(Options options) : options_(std::move(options)) {}

  std::string typestr() const override { return "jax.Array"; }
  // NotFound where `_sharding` is there, but without an entry for the array.
  Result<std::vector<ValueMetadata>> Metadata(
      std::span<const ParamInfo> infos) override;
  Result<std::vector<CommitFuture>> Serialize(
      std::span<const Tree* const> values, std::span<const ParamInfo> infos,
      std::span<const SaveArgs> args) override;
  // One jax.Array leaf an info. Where the devices hold different boxes, it is
  // Tree::ShardedArray with one shard a box, in the order of ShardBoxes without
  // its replicas; each is read once. The sharding is that of the args, or the
  // recorded one. InvalidArgument "Must provide ArrayRestoreArgs to restore as
  // jax.Array." when `args` is empty, "Sharding of jax.Array cannot be None..."
  // and "Requested shape: (16,) is not compatible with the stored shape: (8,).
  // Truncating/padding is disabled..."
  Result<std::vector<Tree>> Deserialize(
      std::span<const ParamInfo> infos,
      std::span<const AnyRestoreArgs> args) override;
  Status Finalize(const std::string& directory) override;

  const Options& options() const { return options_; }

 protected:
  Options options_;
};

// In Orbax one replica reads and sends to the others. In one process every box
// is read once anyway; the args are checked as Orbax checks them.
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

// Strings: members of one JSON file.
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

// Placeholders: they have no value, so only Deserialize works.
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
