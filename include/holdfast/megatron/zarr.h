// Megatron Core's zarr checkpoints: metadata.json, one zarr v2 array per key,
// object files, and the strategies that write and read them.
//
// The files are byte for byte those of Megatron Core 0.8 to 0.15.3, with
// deliberate improvements: bfloat16 keeps its bits; ranks that share a chunk
// write only their own bytes of it (no lock, no read-back, no race); 0-d
// tensors are stored, as chunk "0"; keys that leave the directory, or that zarr
// would store elsewhere, are refused; everything is on stable storage before
// metadata.json appears.
//
// In a save with many ranks, every rank calls CreateArrays, all wait for each
// other, every rank calls WriteShards, all wait, and one rank calls SaveConfig.
// metadata.json is the commit marker: without it the directory is not a
// checkpoint, so a rank that dies leaves no checkpoint.
//
// Thread-safety: strategies are immutable; calls on different directories, or
// for different ranks in the same phase, may run concurrently.
// Ownership: loaded arrays own their memory; views are borrowed for the call.
// Units: bytes, elements.
// Errors: as megatron.h; file system errors as Status codes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/megatron/megatron.h"
#include "holdfast/options.h"

namespace holdfast HOLDFAST_EXPORT {
namespace megatron {

// ---- metadata.json

// A JSON scalar; monostate is null.
using ConfigValue =
    std::variant<std::monostate, bool, int64_t, double, std::string>;
// The text that Python prints: 'zarr', 1, None.
std::string ConfigValueRepr(const ConfigValue& value);

struct CheckpointingConfig {
  ConfigValue sharded_backend = std::string("zarr");
  ConfigValue sharded_backend_version = int64_t{1};
  ConfigValue common_backend = std::string("torch");
  ConfigValue common_backend_version = int64_t{1};
  // Names of unknown members (only with UnknownMembers::kIgnore).
  std::vector<std::string> unknown_members;

  bool operator==(const CheckpointingConfig&) const = default;
};
enum class UnknownMembers : uint8_t { kRefuse, kIgnore };

// Convert to and from the text of metadata.json. METADATA_INVALID (TypeError or
// JSONDecodeError).
std::string ConfigText(const CheckpointingConfig& config);
Result<CheckpointingConfig> ParseConfig(
    std::string_view text, UnknownMembers unknown = UnknownMembers::kRefuse);

// Nullopt if metadata.json does not exist.
Result<std::optional<CheckpointingConfig>> MaybeLoadConfig(
    const std::string& checkpoint_dir,
    UnknownMembers unknown = UnknownMembers::kRefuse);
// Writes metadata.json atomically, after everything else in the directory is
// durable.
Status SaveConfig(const CheckpointingConfig& config,
                  const std::string& checkpoint_dir, bool sync = true);
Result<bool> CheckIsDistributedCheckpoint(const std::string& checkpoint_dir);
// DIR_NOT_FOUND, NOT_A_DIST_CKPT, METADATA_INVALID.
Result<CheckpointingConfig> OpenConfig(
    const std::string& checkpoint_dir,
    UnknownMembers unknown = UnknownMembers::kRefuse);

// ---- dtypes

// torch_to_numpy_dtype_dict: "<f4", "|b1", "bfloat16". UNSUPPORTED_DTYPE
// (`torch.uint16`) for what Megatron's table lacks.
Result<std::string> TorchToNumpyDType(DType dtype);
// numpy_to_torch_dtype_dict. UNSUPPORTED_DTYPE (`dtype('uint16')`).
Result<DType> NumpyToTorchDType(std::string_view numpy_dtype);
// The twelve pairs, in Megatron's order.
std::span<const std::pair<DType, std::string_view>> DTypeTable();

// ---- arrays

// Ok, or REFUSED_KEY for a key that is empty, absolute, has empty parts, "." or
// "..", is not UTF-8, contains a NUL, or ends in ".zip", ".n5" or ".sync".
Status CheckKeyIsStorable(std::string_view key);

// An open array, as described by its .zarray.
class ZarrArray {
 public:
  const std::string& path() const;
  const Shape& shape() const;
  const Shape& chunks() const;
  DType dtype() const;
  // As in .zarray: "<f4", ">f4", "bfloat16".
  const std::string& dtype_name() const;

  struct State;
  explicit ZarrArray(std::shared_ptr<const State> state)
      : state_(std::move(state)) {}
  const State& state() const { return *state_; }

 private:
  std::shared_ptr<const State> state_;
};

// Which loader's errors are returned, and whose rules apply to slices past the
// end.
enum class LoadMode : uint8_t {
  kTensorStore,  // Megatron's default loader
  kZarr,         // its ZarrLoadShardedStrategy
};
// How a chunk without a file is treated. A filled chunk has the fill value, or
// zeros, and is listed in the result.
//
// kAsRecorded: if Megatron would have written the chunk (the save did not
// finish, or the file was lost), the load fails with ABSENT_CHUNK, listing such
// chunks. The chunk is filled if it may be absent: the array has a fill value,
// or the chunk is in the remainder of an axis that is not divisible by its
// fragments.
using AbsentChunks = MissingChunks;

// ARRAY_NOT_FOUND, ARRAY_METADATA_INVALID, UNSUPPORTED_DTYPE; messages by
// `mode`.
Result<ZarrArray> OpenZarrArrayVerbose(const std::string& path,
                                       LoadMode mode = LoadMode::kZarr);

// True for a main replica's tensor whose offsets are all 0 (and whose
// flattened_range, if any, starts at 0). Megatron never creates the array for a
// 0-d tensor, and so cannot save one: ARRAY_NOT_FOUND.
bool ShouldCreateArray(const ShardedTensor& tensor, bool store_zero_d = true);
// Creates the directory and .zarray. ARRAY_EXISTS, NOT_DIVISIBLE,
// UNSUPPORTED_DTYPE, EMPTY_AXIS, REFUSED_KEY, UNEVEN_SHARDING.
Result<ZarrArray> CreateZarrArray(const ShardedTensor& tensor,
                                  const std::string& checkpoint_dir,
                                  bool sync = true);
// Creates the arrays that this rank must create, calls `barrier` (may be
// empty), then opens the others. Nullopt for replicas that are not main.
Result<std::vector<std::optional<ZarrArray>>> CreateOrOpenZarrArrays(
    std::span<const ShardedTensor> tensors, const std::string& checkpoint_dir,
    const std::function<Status()>& barrier = nullptr, bool sync = true,
    bool store_zero_d = true);
// Writes the tensor's elements to their place in the array; does nothing for
// nullopt.
Status SaveToExistingArray(const ShardedTensor& tensor,
                           const std::optional<ZarrArray>& array,
                           bool sync = true);

struct LoadedTensor {
  // Has the stored dtype, and local_shape or one dimension with a
  // flattened_range. A view of the target if one was given.
  Array array;
  std::vector<std::string> absent_chunks;  // "w/0.1"
};

struct ZarrLoadOptions {
  LoadMode mode = LoadMode::kTensorStore;
  AbsentChunks absent_chunks = AbsentChunks::kAsRecorded;
  // Pads a tensor past the stored extent (allow_shape_mismatch) with its last
  // row (DIST_CKPT_PAD_REPLICATE=1) instead of zeros.
  bool pad_replicate = false;
  RunOptions run;
};

// Loads one tensor. If `target` has data, the elements are written there; it
// must have the stored dtype (DTYPE_MISMATCH) and the shape of the result.
Result<LoadedTensor> LoadFromArray(const ShardedTensor& tensor,
                                   const std::string& checkpoint_dir,
                                   const ZarrLoadOptions& options = {},
                                   const ArrayView& target = {});

// Steps of a load on arrays in memory. `loaded` is the stored part with all
// axes; prepended axes are dropped, the result is padded, then flattened.
Result<Array> PostprocessNumpyArray(const Array& loaded,
                                    const ShardedTensor& tensor,
                                    bool apply_flattened_range = true,
                                    bool pad_replicate = false);
Result<Array> FlattenRange(const ShardedTensor& tensor, const Array& x);
Result<Array> PadToExpectedShape(const Array& x, const ShardedTensor& expected,
                                 bool pad_replicate = false);

// ---- listings

using TensorMetadata = std::map<std::string, ShardedTensor, std::less<>>;
using ObjectMetadata = std::map<std::string, ShardedObject, std::less<>>;
struct ShardedMetadata {
  TensorMetadata tensors;  // by key; complete arrays, no data
  ObjectMetadata objects;  // by unique_key
};
using GetShapeDTypeFn =
    std::function<Result<std::pair<Shape, DType>>(const std::string& path)>;

struct ListOptions {
  // Also list arrays whose key has a '/', which Megatron's listings leave out.
  bool recursive = false;
  // Also list arrays of a dtype that Megatron's table lacks.
  bool allow_any_dtype = false;
  int thread_count = 0;
};
// One ShardedTensor per array directory (never for "*.sync").
Result<TensorMetadata> LoadZarrBasedShardedMetadata(
    const std::string& checkpoint_dir, const GetShapeDTypeFn& get_shape_dtype,
    const ListOptions& options = {});
Result<ShardedMetadata> LoadShardedMetadata(const std::string& checkpoint_dir,
                                            const ListOptions& options = {});

// ---- strategies

enum class StrategyAction : uint8_t {
  kLoadCommon,
  kLoadSharded,
  kSaveCommon,
  kSaveSharded,
};
std::string_view StrategyActionName(StrategyAction action);

class Strategy {
 public:
  Strategy(std::string backend, int64_t version)
      : backend_(std::move(backend)), version_(version) {}
  virtual ~Strategy() = default;
  virtual std::string_view class_name() const = 0;
  const std::string& backend() const { return backend_; }
  int64_t version() const { return version_; }
  // "ZarrSaveShardedStrategy(zarr, 1)".
  std::string ToString() const;

 private:
  const std::string backend_;
  const int64_t version_;
};

struct ZarrSaveOptions {
  // Everything written is on stable storage when a phase returns.
  bool sync = true;
  // If false, 0-d tensors fail with ARRAY_NOT_FOUND, as in Megatron.
  bool store_zero_d = true;
  RunOptions run;
};

class ZarrSaveShardedStrategy : public Strategy {
 public:
  explicit ZarrSaveShardedStrategy(std::string backend = "zarr",
                                   int64_t version = 1)
      : Strategy(std::move(backend), version) {}
  std::string_view class_name() const override {
    return "ZarrSaveShardedStrategy";
  }
  // Phase 1: creates the arrays whose first shard belongs to this rank.
  Status CreateArrays(std::span<const ShardedTensor> tensors,
                      const std::string& checkpoint_dir,
                      const ZarrSaveOptions& options = {}) const;
  // Phase 2, after phase 1 on every rank: writes the main replicas' elements.
  Result<Stats> WriteShards(std::span<const ShardedTensor> tensors,
                            const std::string& checkpoint_dir,
                            const ZarrSaveOptions& options = {}) const;
  // Phase 3, optional, after phase 2 on every rank: checks that every chunk of
  // the arrays that this rank created exists and is complete. ABSENT_CHUNK,
  // CHUNK_SIZE.
  Status CheckWritten(std::span<const ShardedTensor> tensors,
                      const std::string& checkpoint_dir) const;
  // All three phases, with `barrier` between and after them.
  Result<Stats> Save(std::span<const ShardedTensor> tensors,
                     const std::string& checkpoint_dir,
                     const std::function<Status()>& barrier = nullptr,
                     const ZarrSaveOptions& options = {}) const;
};

class ZarrLoadShardedStrategy : public Strategy {
 public:
  explicit ZarrLoadShardedStrategy(std::string backend = "zarr",
                                   int64_t version = 1,
                                   LoadMode mode = LoadMode::kZarr)
      : Strategy(std::move(backend), version), mode_(mode) {}
  std::string_view class_name() const override {
    return mode_ == LoadMode::kZarr ? "ZarrLoadShardedStrategy"
                                    : "TensorStoreLoadShardedStrategy";
  }
  // Loads all tensors in one pass over the files, in the given order. `targets`
  // is empty or has one view (whose data may be null) per tensor.
  Result<std::vector<LoadedTensor>> Load(
      std::span<const ShardedTensor> tensors, const std::string& checkpoint_dir,
      ZarrLoadOptions options = {},
      std::span<const ArrayView> targets = {}) const;
  Result<TensorMetadata> LoadTensorsMetadata(
      const std::string& checkpoint_dir) const;
  // Ok for zarr version 1; otherwise FailedPrecondition, which says what the
  // checkpoint is and how to convert it.
  Status CheckBackendCompatibility(const ConfigValue& loaded_backend) const;
  Status CheckVersionCompatibility(const ConfigValue& loaded_version) const;

 private:
  LoadMode mode_;
};

// Megatron's default loader for zarr checkpoints.
class TensorStoreLoadShardedStrategy : public ZarrLoadShardedStrategy {
 public:
  explicit TensorStoreLoadShardedStrategy(std::string backend = "zarr",
                                          int64_t version = 1)
      : ZarrLoadShardedStrategy(std::move(backend), version,
                                LoadMode::kTensorStore) {}
};

// The registry, one per process, with its own locks.
void RegisterDefaultStrategy(StrategyAction action, std::string backend,
                             int64_t version,
                             std::shared_ptr<const Strategy> strategy);
// UNKNOWN_STRATEGY. The zarr strategies and torch's common ones are registered
// from the start.
Result<std::shared_ptr<const Strategy>> GetDefaultStrategy(
    StrategyAction action, const ConfigValue& backend,
    const ConfigValue& version);
// Registers ZarrSaveShardedStrategy and TensorStoreLoadShardedStrategy for zarr
// 1.
void RegisterDefaultZarrStrategies();

// ---- common state and objects: files of torch.save, as they are

// COMMON_NOT_FOUND.
Result<std::string> ReadCommonFile(const std::string& checkpoint_dir);
Status WriteCommonFile(const std::string& checkpoint_dir,
                       std::string_view torch_file, bool sync = true);
// Reads the object's file, also under its name from before 0.8.
// OBJECT_NOT_FOUND.
Result<std::string> ReadObjectFile(const std::string& checkpoint_dir,
                                   const ShardedObject& object);
// Writes the main replicas' objects. REFUSED_KEY.
Status WriteObjectFiles(const std::string& checkpoint_dir,
                        std::span<const ShardedObject> objects,
                        bool sync = true);

// ---- all ranks in one call: for tools and tests

struct SaveCheckpointOptions {
  CheckpointingConfig config;
  bool validate_access_integrity = true;
  ZarrSaveOptions zarr;
};
// The directory must exist. `common_file` is a torch.save file, or empty.
Result<Stats> SaveCheckpoint(std::span<const RankState> ranks,
                             std::string_view common_file,
                             const std::string& checkpoint_dir,
                             const SaveCheckpointOptions& options = {});

struct LoadCheckpointOptions {
  StrictHandling strict = StrictHandling::kAssumeOkUnexpected;
  bool validate_access_integrity = true;  // checked for every rank, not only 0
  ZarrLoadOptions zarr;
};
struct RankResult {
  Status status;  // this rank's own
  // One for each requested tensor and object; nullopt if it was dropped as
  // unexpected.
  std::vector<std::optional<LoadedTensor>> tensors;
  std::vector<std::optional<std::string>> objects;  // torch.save files
  StrictOutcome strict;
};
// An error common to all ranks (no checkpoint, unknown back end) is returned as
// the error of the call.
Result<std::vector<RankResult>> LoadCheckpoint(
    std::span<const RankState> ranks, const std::string& checkpoint_dir,
    const LoadCheckpointOptions& options = {});

}  // namespace megatron
}  // namespace holdfast
