// PyTreeCheckpointHandler: saves a tree into a directory and restores it, with
// the options, arguments and rules of Orbax's class of the same name.
//
//   auto handler = PyTreeCheckpointHandler::Make({.use_zarr3 = true});
//   PyTreeSaveArgs save{.item = state};
//   save.save_args["params.w"].dtype = DType::kBfloat16;
//   (*handler)->Save(directory, save);
//   PyTreeRestoreArgs restore{.item = target};
//   restore.restore_args["params.w"] = ArrayRestoreArgs{.sharding = rows};
//   auto state = (*handler)->Restore(directory, restore);
//
// A handler writes files without markers and without atomicity. PendingSave can
// provide a directory that becomes visible atomically.
//
// The engine writes and reads leaves of the standard types in one pass. If the
// registry has another handler for a leaf's type, that TypeHandler gets all
// such leaves in a single call; with several processes, a save calls it only on
// the primary host.
//
// Thread-safety: one call at a time per handler, and per directory.
// Ownership: arguments are borrowed for the call; AsyncSave copies what it
// needs before it returns.
// Units: GB are 10^9 bytes; shapes in elements.
// Errors: those of the engine, and Orbax's refusals with Orbax's messages:
// FileNotFoundError and KeyError are NotFound, ValueError and TypeError are
// InvalidArgument. A save that is refused has written nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "holdfast/detail/aggregate_handlers.h"
#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/orbax/transform.h"
#include "holdfast/orbax/type_handlers.h"
#include "holdfast/process_group.h"
#include "holdfast/pytree_metadata.h"
#include "holdfast/restore_args.h"
#include "holdfast/shard_plan.h"
#include "holdfast/status.h"
#include "holdfast/tree.h"

namespace holdfast HOLDFAST_EXPORT {

inline constexpr std::string_view kPytreeMetadataFile = "_METADATA";
// Orbax's default limit, meant for the largest hosts, in 10^9 bytes.
inline constexpr int kDefaultConcurrentGb = 96;

// The values to save, and how to save them.
struct PyTreeSaveArgs {
  Tree item;
  // By parameter name (keys joined with "."); a name that `item` lacks is
  // refused.
  std::map<std::string, SaveArgs> save_args;
  // A data file is closed at this size. 0: no limit. Absent: 2 GiB.
  std::optional<int64_t> ocdbt_target_data_file_size;
  std::string custom_metadata;  // a JSON object for `_METADATA`, or empty
};

// The result of a LegacyTransformFn: two trees with the same structure.
struct LegacyTransformed {
  Tree structure;
  Tree param_infos;
};

// The function receives `item` (or null), the structure of the checkpoint, and
// the ParamInfos of its leaves. The leaves of `structure` are Tree::Objects of
// ValueMetadataEntry, except values from the msgpack file and typed empties,
// which are themselves; the leaves of `param_infos` are Tree::Objects of
// ParamInfo. A leaf that is moved keeps its ParamInfo, whose name says where
// the leaf is stored.
using LegacyTransformFn = std::function<Result<LegacyTransformed>(
    const Tree* item, const Tree& structure, const Tree& param_infos)>;

// The values to restore, and how to restore them. All members are optional.
struct BasePyTreeRestoreArgs {
  // The structure of the result, including tuples and named tuples. A
  // Placeholder is not read and stays a Placeholder. Array leaves provide the
  // shapes and dtypes that strict ArrayRestoreArgs do not set.
  std::optional<Tree> item;
  // By parameter name in `item`, or without an item in the checkpoint; an
  // unknown name is refused. Absent: all values are restored as they were
  // saved.
  std::optional<RestoreArgsMap> restore_args;
  // Allow `item` to lack leaves of the checkpoint. Leaves of `item` that the
  // checkpoint lacks are kept.
  bool partial_restore = false;
};

// BasePyTreeCheckpointHandler and PyTreeCheckpointHandler take the same save
// arguments.
using BasePyTreeSaveArgs = PyTreeSaveArgs;

struct PyTreeRestoreArgs : BasePyTreeRestoreArgs {
  // Needs `item`, and `restore_args` if a transform uses restore arguments.
  std::optional<Transforms> transforms;
  // See ApplyTransformations.
  bool transforms_default_to_original = true;
  LegacyTransformFn legacy_transform_fn;  // may be empty; excludes `transforms`
};

// The processes that save and restore together. Every process makes the same
// calls; each passes, and receives, the shards of its own devices.
struct MultiprocessingOptions {
  // The process that writes metadata and unsharded data. If absent, each
  // process works by itself, on its own disk. A single process must be 0 or
  // absent here.
  std::optional<int> primary_host = 0;
  // Absent: all processes. Must include this process and the primary host.
  std::optional<std::set<int>> active_processes;
  // Prefix of the names of barriers.
  std::optional<std::string> barrier_sync_key_prefix;
  // Borrowed. Null: this is the only process.
  ProcessGroup* group = nullptr;
  // Which process has which device, for the shardings in a restore.
  DeviceProcesses devices;
};

struct MemoryLimitOptions {
  std::optional<double> max_transfer_concurrent_gb;
};

struct PyTreeMetadataOptions {
  // Record tuples and named tuples, so that they are restored as such.
  bool support_rich_types = false;
};

// A limit in GB, or "auto": the machine's free memory when the save begins, at
// most MemoryLimitOptions::max_transfer_concurrent_gb.
using ConcurrentGb = std::variant<double, std::string>;

// Returns an error if the processes' rows contradict each other.
using ArrayMetadataValidator =
    std::function<Status(const ArrayMetadatasByProcess&)>;
struct ArrayMetadataCheckOptions {
  int process_count = 1;         // in the program
  std::optional<int> reference;  // process to compare with; absent: the first
};
// The default validator: checks that all processes name the same parameters,
// with the same chunk shapes, write shapes and PRNG implementations.
Status ValidateAllArrayMetadatas(const ArrayMetadatasByProcess& metadatas,
                                 const ArrayMetadataCheckOptions& options = {});
// Reads the rows of an item; empty if it has no rows. DataLoss, naming the
// file.
Result<ArrayMetadatasByProcess> ReadArrayMetadatas(
    const std::string& directory);
// Adds rows to a process's file. Existing rows are kept, as in Orbax; of two
// rows for the same parameter, the later one counts.
Status AddArrayMetadatas(const std::string& directory, int process,
                         const std::vector<SerializedArrayMetadata>& rows);

// Returns true if the leaf at this path should be processed before others.
using IsPrioritizedKeyFn =
    std::function<bool(const std::vector<std::string>& keypath)>;
// Sets `compression` and `chunk_bytes` in `options` for handlers that
// have Orbax's options. If use_compression is false, nothing is compressed. If
// `compression` is absent, the environment variable HOLDFAST_COMPRESSION names
// it (CompressionName); otherwise it is zstd, as in Orbax. With zstd and none,
// chunks have Orbax's shapes; with planes and fast they have about 8 MiB,
// because each is compressed in one piece. InvalidArgument for an unknown name.
Status SetHandlerCompression(bool use_compression,
                             std::optional<Compression> compression,
                             SaveOptions& options);

// Returns true if this array leaf is neither changed nor freed during the save.
using IsImmutableFn = std::function<bool(const Tree& leaf)>;

// The calls that PyTreeCheckpointHandler makes for everything except transforms
// and old checkpoints; callers may replace the standard implementation.
class BasePyTreeCheckpointHandler {
 public:
  virtual ~BasePyTreeCheckpointHandler() = default;

  virtual Result<std::vector<CommitFuture>> AsyncSave(
      const std::string& directory, const PyTreeSaveArgs& args) = 0;
  virtual Status Save(const std::string& directory,
                      const PyTreeSaveArgs& args) = 0;
  virtual Result<Tree> Restore(const std::string& directory,
                               const BasePyTreeRestoreArgs& args) = 0;
  virtual Result<PyTreeMetadata> Metadata(const std::string& directory) = 0;
  virtual Status Finalize(const std::string& directory) = 0;
  virtual void Close() = 0;
};

struct PyTreeCheckpointHandlerOptions {
  // The name of the msgpack file in old checkpoints; absent: "checkpoint".
  std::optional<std::string> aggregate_filename;
  // Limits on the bytes held between memory and disk. Absent: the engine's
  // defaults (RunOptions). A chunk larger than the limit is processed in
  // pieces.
  std::optional<double> save_concurrent_gb;
  std::optional<double> restore_concurrent_gb;
  // Limit on the bytes that AsyncSave copies before it returns. If a tree needs
  // more, AsyncSave writes it before it returns.
  std::optional<ConcurrentGb> save_device_host_concurrent_gb;
  std::optional<MemoryLimitOptions> memory_limit_options;
  bool use_ocdbt = true;
  bool use_zarr3 = false;
  bool use_compression = true;
  // Absent: SetHandlerCompression's choice.
  std::optional<Compression> compression;
  MultiprocessingOptions multiprocessing_options;
  // Null: GlobalTypeHandlerRegistry().
  std::shared_ptr<TypeHandlerRegistry> type_handler_registry;
  // Null: the standard implementation.
  std::shared_ptr<BasePyTreeCheckpointHandler> handler_impl;
  PyTreeMetadataOptions pytree_metadata_options;
  // Finalize calls this if there are jax arrays and a primary host. Empty:
  // ValidateAllArrayMetadatas.
  ArrayMetadataValidator array_metadata_validator;
  // Ignored: arrays are already in host memory, so there is nothing to pin.
  std::optional<bool> enable_pinned_host_transfer;
  // Empty: no leaf is processed before others.
  IsPrioritizedKeyFn is_prioritized_key_fn;
  // AsyncSave does not copy immutable leaves. Empty: it copies all leaves.
  IsImmutableFn is_immutable_fn;
  // When this becomes true, saves fail with Cancelled. Borrowed; may be null.
  const std::atomic<bool>* cancel = nullptr;
  bool sync = true;  // as SaveOptions::sync
};

class PyTreeCheckpointHandler {
 public:
  // InvalidArgument for limits that are not positive, "auto" without a limit,
  // and processes other than this one.
  static Result<std::unique_ptr<PyTreeCheckpointHandler>> Make(
      PyTreeCheckpointHandlerOptions options = {});
  // Waits for the work that AsyncSave began.
  virtual ~PyTreeCheckpointHandler() = default;

  // Begins a save, and returns when the tree may change. Each future has the
  // Status of its write. TypeHandlers for other types have been called by then.
  virtual Result<std::vector<CommitFuture>> AsyncSave(
      const std::string& directory, const PyTreeSaveArgs& args) = 0;
  // Saves without copying the arrays first. With several processes, all have
  // written their parts when Save returns ok.
  virtual Status Save(const std::string& directory,
                      const PyTreeSaveArgs& args) = 0;
  // Restores the item. An array with a sharding becomes a ShardedArray with one
  // shard for each distinct box of this process's devices; only the chunks that
  // these boxes need are read.
  virtual Result<Tree> Restore(const std::string& directory,
                               const PyTreeRestoreArgs& args = {}) = 0;
  virtual Result<PyTreeMetadata> Metadata(const std::string& directory) = 0;
  // Completes the item; must be called after all futures. With several
  // processes every process calls it: the primary host merges their parts.
  virtual Status Finalize(const std::string& directory) = 0;
  // Waits for the work that AsyncSave began.
  virtual void Close() = 0;
};

}  // namespace holdfast
