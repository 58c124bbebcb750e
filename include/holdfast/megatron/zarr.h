// Megatron Core's zarr checkpoints: metadata.json, one zarr v2 array per key,
// object files, and the strategies that write and read them.
//
// The files are byte for byte those of Megatron Core 0.8 to 0.15.3, with
// deliberate improvements:
// - bfloat16 keeps its bits;
// - ranks that share a chunk each write only their own bytes of the chunk,
//   without locks, reads or races;
// - 0-d tensors are stored, in chunk "0";
// - keys that lead out of the directory, or that zarr would store elsewhere,
//   are refused;
// - everything is on stable storage before metadata.json appears.
//
// In a save with many ranks, every rank calls CreateArrays, all wait for each
// other, every rank calls WriteShards, all wait again, and one rank calls
// SaveConfig. metadata.json is the commit marker: without it the directory is
// not a checkpoint. So if a rank dies, there is no checkpoint.
//
// Thread-safety: strategies are immutable; calls on different directories, or
// for different ranks in the same phase, may run concurrently.
// Ownership: loaded arrays own their memory; views are borrowed for the call.
// Units: bytes, elements.
// Errors: as in megatron.h; errors of the file system have their usual Status
// codes.
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
// Returns the text that Python prints: 'zarr', 1, None.
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

// Reads metadata.json; nullopt if the file does not exist.
Result<std::optional<CheckpointingConfig>> MaybeLoadConfig(
    const std::string& checkpoint_dir,
    UnknownMembers unknown = UnknownMembers::kRefuse);
// Writes metadata.json atomically, after everything else in the directory is
// durable.
Status SaveConfig(const CheckpointingConfig& config,
                  const std::string& checkpoint_dir, bool sync = true);
Result<bool> CheckIsDistributedCheckpoint(const std::string& checkpoint_dir);
// Reads the metadata.json of a checkpoint. DIR_NOT_FOUND, NOT_A_DIST_CKPT,
// METADATA_INVALID.
Result<CheckpointingConfig> OpenConfig(
    const std::string& checkpoint_dir,
    UnknownMembers unknown = UnknownMembers::kRefuse);

// ---- dtypes

// Looks the dtype up in Megatron's torch_to_numpy_dtype_dict: "<f4", "|b1",
// "bfloat16". UNSUPPORTED_DTYPE (`torch.uint16`) if the table lacks it.
Result<std::string> TorchToNumpyDType(DType dtype);
// The same for numpy_to_torch_dtype_dict. UNSUPPORTED_DTYPE
// (`dtype('uint16')`).
Result<DType> NumpyToTorchDType(std::string_view numpy_dtype);
// Returns the table's twelve pairs, in Megatron's order.
std::span<const std::pair<DType, std::string_view>> DTypeTable();

// ---- arrays

// Fails with REFUSED_KEY for a key that is empty or absolute; that has a part
// that is empty, "." or ".."; that is not UTF-8 or contains a NUL; or that ends
// in ".zip", ".n5" or ".sync".
Status CheckKeyIsStorable(std::string_view key);

// An open array, as described by its .zarray.
class ZarrArray {
 public:
  const std::string& path() const;
  const Shape& shape() const;
  const Shape& chunks() const;
  DType dtype() const;
  // Returns the dtype's name in .zarray: "<f4", ">f4", "bfloat16".
  const std::string& dtype_name() const;

  struct State;
  explicit ZarrArray(std::shared_ptr<const State> state)
      : state_(std::move(state)) {}
  const State& state() const { return *state_; }

 private:
  std::shared_ptr<const State> state_;
};

// The loader of Megatron whose errors are returned, and whose rules apply to
// slices past the end of an array.
enum class LoadMode : uint8_t {
  kTensorStore,  // Megatron's default loader
  kZarr,         // its ZarrLoadShardedStrategy
};
// How a chunk without a file is treated. A filled chunk has the fill value, or
// zeros, and is listed in the result.
//
// kAsRecorded: the chunk is filled if it may be absent: the array has a fill
// value, or the chunk is in the remainder of an axis that is not divisible by
// its fragments. Otherwise the save did not finish or the file was lost, and
// the load fails with ABSENT_CHUNK, listing all such chunks.
using AbsentChunks = MissingChunks;

// Opens the array at `path`. ARRAY_NOT_FOUND, ARRAY_METADATA_INVALID,
// UNSUPPORTED_DTYPE; `mode` determines the messages.
Result<ZarrArray> OpenZarrArrayVerbose(const std::string& path,
                                       LoadMode mode = LoadMode::kZarr);

// Returns true if this rank must create the tensor's array: the tensor belongs
// to a main replica, its offsets are all 0, and its flattened_range, if any,
// starts at 0. Without `store_zero_d`, false for a 0-d tensor, as in Megatron,
// which therefore cannot save one (ARRAY_NOT_FOUND).
bool ShouldCreateArray(const ShardedTensor& tensor, bool store_zero_d = true);
// Creates the array's directory and .zarray. ARRAY_EXISTS, NOT_DIVISIBLE,
// UNSUPPORTED_DTYPE, EMPTY_AXIS, REFUSED_KEY, UNEVEN_SHARDING.
Result<ZarrArray> CreateZarrArray(const ShardedTensor& tensor,
                                  const std::string& checkpoint_dir,
                                  bool sync = true);
// Creates the arrays that this rank must create, calls `barrier` (which may be
// empty), then opens the other arrays. Returns nullopt for a replica that is
// not the main one.
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
  // Has the stored dtype, and the shape local_shape, or one dimension if the
  // tensor has a flattened_range. If a target was given, this is a view of it.
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

// PostprocessNumpyArray does what a load does after it has read the stored part
// with all axes, `loaded`: it drops prepended axes, pads the array, and takes
// the flattened range. The other two functions do one of these steps.
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
  // Also list arrays whose dtype is not in Megatron's table.
  bool allow_any_dtype = false;
  int threads = 0;
};
// Returns one ShardedTensor per array directory, except "*.sync".
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
  // Returns text such as "ZarrSaveShardedStrategy(zarr, 1)".
  std::string ToString() const;

 private:
  const std::string backend_;
  const int64_t version_;
};

struct ZarrSaveOptions {
  // Everything that a phase writes is on stable storage when it returns.
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
  // Does all three phases, with calls of `barrier` between and after them.
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
  // Loads all tensors in one pass over the files. The result is in the order of
  // `tensors`. `targets` is empty, or has one view per tensor, whose data may
  // be null.
  Result<std::vector<LoadedTensor>> Load(
      std::span<const ShardedTensor> tensors, const std::string& checkpoint_dir,
      ZarrLoadOptions options = {},
      std::span<const ArrayView> targets = {}) const;
  Result<TensorMetadata> LoadTensorsMetadata(
      const std::string& checkpoint_dir) const;
  // Ok for zarr version 1. Otherwise FailedPrecondition, with a message that
  // says what the checkpoint is and how to convert it.
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

// Adds a strategy to the process's registry. Thread-safety: any thread.
void RegisterDefaultStrategy(StrategyAction action, std::string backend,
                             int64_t version,
                             std::shared_ptr<const Strategy> strategy);
// Returns a registered strategy. The zarr strategies, and torch's strategies
// for the common state, are registered from the start. UNKNOWN_STRATEGY.
Result<std::shared_ptr<const Strategy>> GetDefaultStrategy(
    StrategyAction action, const ConfigValue& backend,
    const ConfigValue& version);
// Registers ZarrSaveShardedStrategy and TensorStoreLoadShardedStrategy for zarr
// 1.
void RegisterDefaultZarrStrategies();

// ---- common state and objects: torch.save files, not parsed

// Read and write the file with the common state. COMMON_NOT_FOUND.
Result<std::string> ReadCommonFile(const std::string& checkpoint_dir);
Status WriteCommonFile(const std::string& checkpoint_dir,
                       std::string_view torch_file, bool sync = true);
// Reads the object's file, also under the name that releases before 0.8 gave
// it. OBJECT_NOT_FOUND.
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
// Saves the states of all ranks. The directory must exist. `common_file` is the
// content of a torch.save file, or empty.
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
  // One entry for each requested tensor and object; nullopt if it was dropped
  // as unexpected.
  std::vector<std::optional<LoadedTensor>> tensors;
  std::vector<std::optional<std::string>> objects;  // torch.save files
  StrictOutcome strict;
};
// Loads what all ranks request. The call fails only with an error that is
// common to all ranks (no checkpoint, unknown back end).
Result<std::vector<RankResult>> LoadCheckpoint(
    std::span<const RankState> ranks, const std::string& checkpoint_dir,
    const LoadCheckpointOptions& options = {});

}  // namespace megatron
}  // namespace holdfast
