// Megatron Core's zarr checkpoints: metadata.json, one zarr v2 array a key,
// object files, and the strategies that write and read them.
//
// Byte for byte what Megatron Core 0.8 to 0.15.3 writes. Better on purpose:
// bfloat16 keeps its bits; ranks that share a chunk write their own bytes of it
// (no lock, nothing read back, no race); 0-d tensors are stored, as chunk "0";
// keys that leave the directory, or that zarr would store elsewhere, are
// refused; everything is on stable storage before metadata.json appears.
//
// A save of many ranks: every rank calls CreateArrays, all wait for each other,
// every rank calls WriteShards, all wait, one calls SaveConfig. metadata.json
// is the commit marker: without it the directory is not a checkpoint, so a rank
// that died leaves none.
//
// Thread-safety: strategies are immutable; calls on different directories, or
// of different ranks in the same phase, may run at once.
// Ownership: loaded arrays own their memory; views are borrowed for the call.
// Units: bytes, elements.
// Errors: megatron.h; those of the file system as Status codes.
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
// As Python prints it: 'zarr', 1, None.
std::string ConfigValueRepr(const ConfigValue& value);

struct CheckpointingConfig {
  ConfigValue sharded_backend = std::string("zarr");
  ConfigValue sharded_backend_version = int64_t{1};
  ConfigValue common_backend = std::string("torch");
  ConfigValue common_backend_version = int64_t{1};
  // Names of members that are not known (only with UnknownMembers::kIgnore).
  std::vector<std::string> unknown_members;

  bool operator==(const CheckpointingConfig&) const = default;
};
enum class UnknownMembers : uint8_t { kRefuse, kIgnore };

// The text of metadata.json and back. METADATA_INVALID (TypeError or
// JSONDecodeError).
std::string ConfigText(const CheckpointingConfig& config);
Result<CheckpointingConfig> ParseConfig(
    std::string_view text, UnknownMembers unknown = UnknownMembers::kRefuse);

// Nullopt when there is no metadata.json.
Result<std::optional<CheckpointingConfig>> MaybeLoadConfig(
    const std::string& checkpoint_dir,
    UnknownMembers unknown = UnknownMembers::kRefuse);
// Written in one step, after everything else in the directory is durable.
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

// OK, or REFUSED_KEY: empty, absolute, with empty parts, "." or "..", not
// UTF-8, with a NUL, or ending in ".zip", ".n5" or ".sync".
Status CheckKeyIsStorable(std::string_view key);

// An open array: what its .zarray says.
class ZarrArray {
 public:
  const std::string& path() const;
  const Shape& shape() const;
  const Shape& chunks() const;
  DType dtype() const;
  // As .zarray spells it: "<f4", ">f4", "bfloat16".
  const std::string& dtype_name() const;

  struct State;
  explicit ZarrArray(std::shared_ptr<const State> state)
      : state_(std::move(state)) {}
  const State& state() const { return *state_; }

 private:
  std::shared_ptr<const State> state_;
};

// The errors that a loader gives, and how it treats slices past the end.
enum class LoadMode : uint8_t {
  kTensorStore,  // Megatron's default loader
  kZarr,         // its ZarrLoadShardedStrategy
};
// How a chunk without a file is treated. A filled chunk has the fill value, or
// zeros, and is listed in the result.
//
// kAsRecorded: refused with ABSENT_CHUNK, listing them, if Megatron would have
// written it: the save did not finish, or the file was lost. Filled if it may
// be absent: the array has a fill value, or the chunk is the rest of an axis
// that its fragments do not divide.
using AbsentChunks = MissingChunks;

// ARRAY_NOT_FOUND, ARRAY_METADATA_INVALID, UNSUPPORTED_DTYPE; texts by `mode`.
Result<ZarrArray> OpenZarrArrayVerbose(const std::string& path,
                                       LoadMode mode = LoadMode::kZarr);

// A main replica's tensor whose offsets are all 0 (and whose flattened_range,
// if any, starts at 0). Megatron never creates the array of a 0-d tensor, and
// so cannot save one: ARRAY_NOT_FOUND.
bool ShouldCreateArray(const ShardedTensor& tensor, bool store_zero_d = true);
// Makes the directory and .zarray. ARRAY_EXISTS, NOT_DIVISIBLE,
// UNSUPPORTED_DTYPE, EMPTY_AXIS, REFUSED_KEY, UNEVEN_SHARDING.
Result<ZarrArray> CreateZarrArray(const ShardedTensor& tensor,
                                  const std::string& checkpoint_dir,
                                  bool sync = true);
// Creates what this rank has to create, calls `barrier` (may be empty), then
// opens the rest. Nullopt for replicas that are not main.
Result<std::vector<std::optional<ZarrArray>>> CreateOrOpenZarrArrays(
    std::span<const ShardedTensor> tensors, const std::string& checkpoint_dir,
    const std::function<Status()>& barrier = nullptr, bool sync = true,
    bool store_zero_d = true);
// Writes the tensor's elements where they belong; nothing for nullopt.
Status SaveToExistingArray(const ShardedTensor& tensor,
                           const std::optional<ZarrArray>& array,
                           bool sync = true);

struct LoadedTensor {
  // Has the stored dtype; local_shape, or 1-D with a flattened_range. A view of
  // the target when one was given.
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

// One tensor. With `target` (data not null) its elements go there; it has the
// stored dtype (DTYPE_MISMATCH) and the shape that would be returned.
Result<LoadedTensor> LoadFromArray(const ShardedTensor& tensor,
                                   const std::string& checkpoint_dir,
                                   const ZarrLoadOptions& options = {},
                                   const ArrayView& target = {});

// Steps of a load on arrays in memory. `loaded` is the stored part with all
// axes; prepended axes are dropped, the rest padded, then flattened.
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
  TensorMetadata tensors;  // by key; whole arrays, no data
  ObjectMetadata objects;  // by unique_key
};
using GetShapeDTypeFn =
    std::function<Result<std::pair<Shape, DType>>(const std::string& path)>;

struct ListOptions {
  // Also lists arrays whose key has a '/', which Megatron's listings do not
  // see.
  bool recursive = false;
  // Leave arrays of a dtype that Megatron's table lacks in the listing.
  bool allow_any_dtype = false;
  int thread_count = 0;
};
// One ShardedTensor for each array directory (never for "*.sync").
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
  // False: 0-d tensors fail with ARRAY_NOT_FOUND, as in Megatron.
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
  // Phase 1: creates the arrays whose first shard is this rank's.
  Status CreateArrays(std::span<const ShardedTensor> tensors,
                      const std::string& checkpoint_dir,
                      const ZarrSaveOptions& options = {}) const;
  // Phase 2, after every rank's phase 1: the main replicas' elements.
  Result<Stats> WriteShards(std::span<const ShardedTensor> tensors,
                            const std::string& checkpoint_dir,
                            const ZarrSaveOptions& options = {}) const;
  // Phase 3, if wanted, after every rank's phase 2: every chunk of the arrays
  // that this rank created is there, whole. ABSENT_CHUNK, CHUNK_SIZE.
  Status CheckWritten(std::span<const ShardedTensor> tensors,
                      const std::string& checkpoint_dir) const;
  // All three, with `barrier` between and after.
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
  // All tensors in one pass over the files, in the order given. `targets` is
  // empty or has one view (data may be null) for each tensor.
  Result<std::vector<LoadedTensor>> Load(
      std::span<const ShardedTensor> tensors, const std::string& checkpoint_dir,
      ZarrLoadOptions options = {},
      std::span<const ArrayView> targets = {}) const;
  Result<TensorMetadata> LoadTensorsMetadata(
      const std::string& checkpoint_dir) const;
  // Ok for zarr and version 1; else FailedPrecondition, which says what the
  // checkpoint is and how to convert it.
  Status CheckBackendCompatibility(const ConfigValue& loaded_backend) const;
  Status CheckVersionCompatibility(const ConfigValue& loaded_version) const;

 private:
  LoadMode mode_;
};

// The loader that Megatron takes for zarr checkpoints by default.
class TensorStoreLoadShardedStrategy : public ZarrLoadShardedStrategy {
 public:
  explicit TensorStoreLoadShardedStrategy(std::string backend = "zarr",
                                          int64_t version = 1)
      : ZarrLoadShardedStrategy(std::move(backend), version,
                                LoadMode::kTensorStore) {}
};

// The registry, one a process, with locks of its own.
void RegisterDefaultStrategy(StrategyAction action, std::string backend,
                             int64_t version,
                             std::shared_ptr<const Strategy> strategy);
// UNKNOWN_STRATEGY. The zarr strategies and torch's common ones are there from
// the start.
Result<std::shared_ptr<const Strategy>> GetDefaultStrategy(
    StrategyAction action, const ConfigValue& backend,
    const ConfigValue& version);
// zarr 1: ZarrSaveShardedStrategy and TensorStoreLoadShardedStrategy.
void RegisterDefaultZarrStrategies();

// ---- common state and objects: files of torch.save, as they are

// COMMON_NOT_FOUND.
Result<std::string> ReadCommonFile(const std::string& checkpoint_dir);
Status WriteCommonFile(const std::string& checkpoint_dir,
                       std::string_view torch_file, bool sync = true);
// The object's file, under its name of before 0.8 too. OBJECT_NOT_FOUND.
Result<std::string> ReadObjectFile(const std::string& checkpoint_dir,
                                   const ShardedObject& object);
// The main replicas' objects. REFUSED_KEY.
Status WriteObjectFiles(const std::string& checkpoint_dir,
                        std::span<const ShardedObject> objects,
                        bool sync = true);

// ---- all ranks in one call: for tools and tests

struct SaveCheckpointOptions {
  CheckpointingConfig config;
  bool validate_access_integrity = true;
  ZarrSaveOptions zarr;
};
// The directory exists. `common_file`: a torch.save file, or empty for none.
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
  // One for each tensor and object asked for; nullopt: dropped as unexpected.
  std::vector<std::optional<LoadedTensor>> tensors;
  std::vector<std::optional<std::string>> objects;  // torch.save files
  StrictOutcome strict;
};
// An error that is the same for all ranks (no checkpoint, unknown back end) is
// the error of the call.
Result<std::vector<RankResult>> LoadCheckpoint(
    std::span<const RankState> ranks, const std::string& checkpoint_dir,
    const LoadCheckpointOptions& options = {});

}  // namespace megatron
}  // namespace holdfast
