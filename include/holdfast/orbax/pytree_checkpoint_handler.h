// PyTreeCheckpointHandler: saves a tree into a directory and restores it, with
// the options, arguments and rules of Orbax's class of that name.
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
// gives it a directory that becomes visible at once.
//
// Leaves of the standard types are written and read by the engine in one pass.
// Any other leaf, or any leaf whose type has another handler in the registry,
// goes to that TypeHandler, which is called once with all of its leaves; of
// several processes, only on the primary host when it is a save.
//
// Thread-safety: one call at a time on one handler, and on one directory.
// Ownership: arguments are borrowed for the call; AsyncSave copies what it
// needs before it returns.
// Units: GB are 10^9 bytes; shapes in elements.
// Errors: those of the engine, and Orbax's refusals in Orbax's words:
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
// Orbax's default bound, made for the largest hosts; in 10^9 bytes.
inline constexpr int kDefaultConcurrentGb = 96;

// The values to save and how.
struct PyTreeSaveArgs {
  Tree item;
  // By parameter name (keys joined with "."); a name that `item` does not have
  // is refused.
  std::map<std::string, SaveArgs> save_args;
  // Bytes at which a data file is closed; 0: never. Absent: 2 GiB.
  std::optional<int64_t> ocdbt_target_data_file_size;
  std::string custom_metadata;  // a JSON object for `_METADATA`, or empty
};

// The result of a LegacyTransformFn: two trees of one structure.
struct LegacyTransformed {
  Tree structure;
  Tree param_infos;
};

// Gets `item` (null: none), the structure of the checkpoint and the ParamInfos
// of its leaves. Leaves are Tree::Object of ValueMetadataEntry and of
// ParamInfo; values of the msgpack file and empties are themselves. A leaf that
// moves keeps its ParamInfo, whose name says where it is stored.
using LegacyTransformFn = std::function<Result<LegacyTransformed>(
    const Tree* item, const Tree& structure, const Tree& param_infos)>;

// The values to restore and how; everything is optional.
struct BasePyTreeRestoreArgs {
  // The result's structure: tuples and named tuples are made as they are here.
  // A Placeholder is left out and comes back. Shape and dtype of array leaves
  // are what strict ArrayRestoreArgs that leave them open ask for.
  std::optional<Tree> item;
  // By parameter name, of `item` or else of the checkpoint; a name that it does
  // not have is refused. Absent: everything as it was saved.
  std::optional<RestoreArgsMap> restore_args;
  // `item` may lack leaves of the checkpoint, and keeps those that the
  // checkpoint lacks.
  bool partial_restore = false;
};

// The base class and PyTreeCheckpointHandler save alike.
using BasePyTreeSaveArgs = PyTreeSaveArgs;

struct PyTreeRestoreArgs : BasePyTreeRestoreArgs {
  // Needs `item`, and `restore_args` where a transform wants some.
  std::optional<Transforms> transforms;
  // See ApplyTransformations.
  bool transforms_default_to_original = true;
  LegacyTransformFn legacy_transform_fn;  // may be empty; excludes `transforms`
};

// Processes that save and restore together. Every one makes the same calls;
// each gives, and gets, the shards of its own devices.
struct MultiprocessingOptions {
  // The process that writes metadata and data that is not sharded; absent: each
  // process works by itself, on a disk of its own. With one process: 0 or
  // absent.
  std::optional<int> primary_host = 0;
  // Absent: all. Must hold this process and the primary host.
  std::optional<std::set<int>> active_processes;
  // Stands before the names by which processes wait for each other.
  std::optional<std::string> barrier_sync_key_prefix;
  // Borrowed. Null: this process is the only one.
  ProcessGroup* group = nullptr;
  // The process of each device, for the shardings of a restore.
  DeviceProcesses devices;
};

struct MemoryLimitOptions {
  std::optional<double> max_transfer_concurrent_gb;
};

struct PyTreeMetadataOptions {
  // Record tuples and named tuples, so that they come back as such.
  bool support_rich_types = false;
};

// A bound in GB, or "auto": as much of MemoryLimitOptions::
// max_transfer_concurrent_gb as the machine has free when the save begins.
using ConcurrentGb = std::variant<double, std::string>;

// Refuses rows of the processes that contradict each other.
using ArrayMetadataValidator =
    std::function<Status(const ArrayMetadatasByProcess&)>;
struct ArrayMetadataCheckOptions {
  int process_count = 1;         // of the program
  std::optional<int> reference;  // the others are compared with it; else first
};
// The default: every process names the same parameters, with the same chunk and
// write shapes and the same PRNG implementation.
Status ValidateAllArrayMetadatas(const ArrayMetadatasByProcess& metadatas,
                                 const ArrayMetadataCheckOptions& options = {});
// The rows of an item; empty when it has none. DataLoss, naming the file.
Result<ArrayMetadatasByProcess> ReadArrayMetadatas(
    const std::string& directory);
// Adds rows to the file of a process. As in Orbax all that it had stay: of two
// rows of one parameter the later counts.
Status AddArrayMetadatas(const std::string& directory, int process,
                         const std::vector<SerializedArrayMetadata>& rows);

// True when the leaf at this path is to be taken before others.
using IsPrioritizedKeyFn =
    std::function<bool(const std::vector<std::string>& keypath)>;
// How handlers that take Orbax's options store arrays: sets `compression` and
// `chunk_bytes_target`. `compression` counts where use_compression is true;
// absent: what HOLDFAST_COMPRESSION names (CompressionName), else zstd, as
// Orbax. With zstd and none chunks have Orbax's shapes, with planes and fast
// about 8 MiB, since they are compressed as a whole. InvalidArgument: no such
// name.
Status SetHandlerCompression(bool use_compression,
                             std::optional<Compression> compression,
                             SaveOptions& options);

// True when this array leaf is neither changed nor freed while it is saved.
using IsImmutableFn = std::function<bool(const Tree& leaf)>;

// The calls that PyTreeCheckpointHandler makes for everything but transforms
// and old checkpoints; one may be given in place of the standard one.
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
  // The msgpack file of old checkpoints; absent: "checkpoint".
  std::optional<std::string> aggregate_filename;
  // Bounds on the bytes between memory and disk; absent: the engine's own
  // (RunOptions). A chunk larger than the bound goes in pieces.
  std::optional<double> save_concurrent_gb;
  std::optional<double> restore_concurrent_gb;
  // Bound on the bytes that AsyncSave copies before it returns. A tree that
  // needs more is written before AsyncSave returns instead.
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
  // Null: the standard one.
  std::shared_ptr<BasePyTreeCheckpointHandler> handler_impl;
  PyTreeMetadataOptions pytree_metadata_options;
  // Empty: ValidateAllArrayMetadatas. Called by Finalize when there are jax
  // arrays and a primary host.
  ArrayMetadataValidator array_metadata_validator;
  // Accepted: arrays are in host memory already, so there is nothing to pin.
  std::optional<bool> enable_pinned_host_transfer;
  // May be empty.
  IsPrioritizedKeyFn is_prioritized_key_fn;
  // AsyncSave does not copy such leaves. Empty: none is.
  IsImmutableFn is_immutable_fn;
  // When it becomes true saves fail with Cancelled. Borrowed; may be null.
  const std::atomic<bool>* cancel = nullptr;
  bool sync = true;  // as SaveOptions::sync
};

class PyTreeCheckpointHandler {
 public:
  // InvalidArgument for bounds that are not positive, "auto" without a limit,
  // and processes other than this one.
  static Result<std::unique_ptr<PyTreeCheckpointHandler>> Make(
      PyTreeCheckpointHandlerOptions options = {});
  // Waits for what AsyncSave began.
  virtual ~PyTreeCheckpointHandler() = default;

  // Returns once the tree may change; each future's Status is that of the
  // write. Handlers of other types have been called then.
  virtual Result<std::vector<CommitFuture>> AsyncSave(
      const std::string& directory, const PyTreeSaveArgs& args) = 0;
  // Reads the arrays where they lie, without a copy. With several processes,
  // all have written when it returns Ok.
  virtual Status Save(const std::string& directory,
                      const PyTreeSaveArgs& args) = 0;
  // Arrays with a sharding come back as ShardedArrays with one shard a distinct
  // box (of this process's devices); of each only the chunks that its box needs
  // are read.
  virtual Result<Tree> Restore(const std::string& directory,
                               const PyTreeRestoreArgs& args = {}) = 0;
  virtual Result<PyTreeMetadata> Metadata(const std::string& directory) = 0;
  // Called after all futures, before the directory counts as complete. With
  // several processes every one calls it: the primary host merges their parts.
  virtual Status Finalize(const std::string& directory) = 0;
  // Waits for what AsyncSave began.
  virtual void Close() = 0;
};

}  // namespace holdfast
