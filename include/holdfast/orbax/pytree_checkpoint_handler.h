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
// A handler writes files without markers and without atomicity: PendingSave
// gives it a directory that becomes visible atomically.
//
// The engine writes and reads leaves of the standard types in one pass. All
// other leaves, and leaves whose type has another handler in the registry, are
// passed to that TypeHandler in a single call; with several processes, saves
// call it only on the primary host.
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
// Orbax's default limit, intended for the largest hosts; in 10^9 bytes.
inline constexpr int kDefaultConcurrentGb = 96;

// The values to save, and how to save them.
struct PyTreeSaveArgs {
  Tree item;
  // By parameter name (keys joined with "."); a name that `item` lacks is
  // refused.
  std::map<std::string, SaveArgs> save_args;
  // Bytes at which a data file is closed; 0: never. Absent: 2 GiB.
  std::optional<int64_t> ocdbt_target_data_file_size;
  std::string custom_metadata;  // a JSON object for `_METADATA`, or empty
};

// The result of a LegacyTransformFn: two trees with the same structure.
struct LegacyTransformed {
  Tree structure;
  Tree param_infos;
};

// Receives `item` (or null), the structure of the checkpoint and the ParamInfos
// of its leaves. Leaves are Tree::Object of ValueMetadataEntry and of
// ParamInfo; values from the msgpack file and typed empties are passed
// directly. A leaf that is moved keeps its ParamInfo, whose name says where it
// is stored.
using LegacyTransformFn = std::function<Result<LegacyTransformed>(
    const Tree* item, const Tree& structure, const Tree& param_infos)>;

// The values to restore, and how to restore them; everything is optional.
struct BasePyTreeRestoreArgs {
  // The structure of the result, including tuples and named tuples. A
  // Placeholder is not read and stays a Placeholder. The shapes and dtypes of
  // array leaves apply where strict ArrayRestoreArgs do not set them.
  std::optional<Tree> item;
  // By parameter name in `item`, or else in the checkpoint; an unknown name is
  // refused. Absent: everything is restored as it was saved.
  std::optional<RestoreArgsMap> restore_args;
  // `item` may lack leaves of the checkpoint, and keeps its own leaves where
  // the checkpoint lacks them.
  bool partial_restore = false;
};

// The base class and PyTreeCheckpointHandler save in the same way.
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
  // process works by itself, on its own disk. With one process: 0 or absent.
  std::optional<int> primary_host = 0;
  // Absent: all processes. Must include this process and the primary host.
  std::optional<std::set<int>> active_processes;
  // Prefix of the names under which processes wait for each other.
  std::optional<std::string> barrier_sync_key_prefix;
  // Borrowed. Null: this is the only process.
  ProcessGroup* group = nullptr;
  // The process of each device, for the shardings in a restore.
  DeviceProcesses devices;
};

struct MemoryLimitOptions {
  std::optional<double> max_transfer_concurrent_gb;
};

struct PyTreeMetadataOptions {
  // Record tuples and named tuples, so that they are restored as such.
  bool support_rich_types = false;
};

// A limit in GB, or "auto": as much of
// MemoryLimitOptions::max_transfer_concurrent_gb as the machine has free when
// the save begins.
using ConcurrentGb = std::variant<double, std::string>;

// Refuses rows of different processes that contradict each other.
using ArrayMetadataValidator =
    std::function<Status(const ArrayMetadatasByProcess&)>;
struct ArrayMetadataCheckOptions {
  int process_count = 1;         // in the program
  std::optional<int> reference;  // the others must match it; else the first
};
// The default validator: every process names the same parameters, with the same
// chunk shapes, write shapes and PRNG implementation.
Status ValidateAllArrayMetadatas(const ArrayMetadatasByProcess& metadatas,
                                 const ArrayMetadataCheckOptions& options = {});
// The rows of an item; empty if it has none. DataLoss, naming the file.
Result<ArrayMetadatasByProcess> ReadArrayMetadatas(
    const std::string& directory);
// Adds rows to the file of a process. As in Orbax, existing rows are kept: of
// two rows for the same parameter, the later one counts.
Status AddArrayMetadatas(const std::string& directory, int process,
                         const std::vector<SerializedArrayMetadata>& rows);

// True when the leaf at this path should be processed before others.
using IsPrioritizedKeyFn =
    std::function<bool(const std::vector<std::string>& keypath)>;
// How handlers with Orbax's options store arrays: sets `compression` and
// `chunk_bytes_target`. `compression` is used if use_compression is true; if
// absent, it is the one that HOLDFAST_COMPRESSION names (CompressionName), or
// else zstd, as in Orbax. With zstd and none, chunks have Orbax's shapes; with
// planes and fast they have about 8 MiB, since each is compressed in one piece.
// InvalidArgument for an unknown name.
Status SetHandlerCompression(bool use_compression,
                             std::optional<Compression> compression,
                             SaveOptions& options);

// True when this array leaf is neither changed nor freed during the save.
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
  // Limits on the bytes between memory and disk; absent: the engine's defaults
  // (RunOptions). A chunk larger than the limit is processed in pieces.
  std::optional<double> save_concurrent_gb;
  std::optional<double> restore_concurrent_gb;
  // Limit on the bytes that AsyncSave copies before it returns. A tree that
  // needs more is instead written before AsyncSave returns.
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
  // Empty: ValidateAllArrayMetadatas. Finalize calls it when there are jax
  // arrays and a primary host.
  ArrayMetadataValidator array_metadata_validator;
  // Accepted but not used: arrays are already in host memory, so there is
  // nothing to pin.
  std::optional<bool> enable_pinned_host_transfer;
  // May be empty.
  IsPrioritizedKeyFn is_prioritized_key_fn;
  // AsyncSave does not copy such leaves. Empty: it copies all.
  IsImmutableFn is_immutable_fn;
  // When it becomes true, saves fail with Cancelled. Borrowed; may be null.
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

  // Returns once the tree may change; each future has the Status of its write.
  // Handlers for other types have finished their calls by then.
  virtual Result<std::vector<CommitFuture>> AsyncSave(
      const std::string& directory, const PyTreeSaveArgs& args) = 0;
  // Reads the arrays in place, without a copy. With several processes, all have
  // written their parts when it returns Ok.
  virtual Status Save(const std::string& directory,
                      const PyTreeSaveArgs& args) = 0;
  // Arrays with a sharding are returned as ShardedArrays with one shard per
  // distinct box (of this process's devices); only the chunks that these boxes
  // need are read.
  virtual Result<Tree> Restore(const std::string& directory,
                               const PyTreeRestoreArgs& args = {}) = 0;
  virtual Result<PyTreeMetadata> Metadata(const std::string& directory) = 0;
  // Called after all futures, before the directory counts as complete. With
  // several processes every process calls it: the primary host merges their
  // parts.
  virtual Status Finalize(const std::string& directory) = 0;
  // Waits for the work that AsyncSave began.
  virtual void Close() = 0;
};

}  // namespace holdfast
