#include "foreign/megatron/error.h"
#include "foreign/megatron/python_text.h"
#include "ground/base/status_macros.h"
#include "holdfast/megatron/zarr.h"
#include "stores/place/directory_ops.h"

namespace holdfast::megatron {
namespace {

Status CheckDirectoryExists(const std::string& directory) {
  HF_ASSIGN_OR_RETURN(const bool exists, LeadsToDirectory(Place(directory)));
  if (exists) return Status();
  return MakeError(
      StatusCode::kNotFound, "SAVE_DIR_MISSING", "FileNotFoundError",
      "[Errno 2] No such file or directory: " + PythonRepr(directory));
}

std::vector<ShardedTensor> AllTensors(std::span<const RankState> ranks) {
  std::vector<ShardedTensor> tensors;
  for (const RankState& rank : ranks) {
    tensors.insert(tensors.end(), rank.tensors.begin(), rank.tensors.end());
  }
  return tensors;
}

KeySet KeysOf(const RankState& rank) {
  KeySet keys;
  for (const ShardedTensor& tensor : rank.tensors) keys.insert(tensor.key);
  for (const ShardedObject& object : rank.objects) keys.insert(object.key);
  return keys;
}

KeySet KeysOf(const ShardedMetadata& metadata) {
  KeySet keys;
  for (const auto& [key, tensor] : metadata.tensors) keys.insert(key);
  for (const auto& [name, object] : metadata.objects) keys.insert(object.key);
  return keys;
}

// A rank's part of a load.
class RankLoader {
 public:
  RankLoader(const RankState& rank, const std::string& directory,
             const ZarrLoadOptions& options)
      : rank_(rank), directory_(directory), options_(options) {}

  // Loads objects first, as Megatron does.
  RankResult Load(StrictOutcome strict) {
    RankResult result;
    result.strict = std::move(strict);
    result.tensors.resize(rank_.tensors.size());
    result.objects.resize(rank_.objects.size());
    result.status = LoadObjects(result);
    if (result.status.ok()) result.status = LoadTensors(result);
    return result;
  }

 private:
  Status LoadObjects(RankResult& result) {
    for (size_t i = 0; i < rank_.objects.size(); ++i) {
      if (result.strict.dropped.contains(rank_.objects[i].key)) continue;
      HF_ASSIGN_OR_RETURN(result.objects[i],
                          ReadObjectFile(directory_, rank_.objects[i]));
    }
    return Status();
  }

  Status LoadTensors(RankResult& result) {
    std::vector<ShardedTensor> wanted;
    std::vector<size_t> places;
    for (size_t i = 0; i < rank_.tensors.size(); ++i) {
      if (result.strict.dropped.contains(rank_.tensors[i].key)) continue;
      wanted.push_back(rank_.tensors[i].WithoutData());
      places.push_back(i);
    }
    const ZarrLoadShardedStrategy strategy("zarr", 1, options_.mode);
    HF_ASSIGN_OR_RETURN(auto loaded,
                        strategy.Load(wanted, directory_, options_));
    for (size_t i = 0; i < places.size(); ++i) {
      result.tensors[places[i]] = std::move(loaded[i]);
    }
    return Status();
  }

  const RankState& rank_;
  const std::string& directory_;
  const ZarrLoadOptions& options_;
};

}  // namespace

Result<Stats> SaveCheckpoint(std::span<const RankState> ranks,
                             std::string_view common_file,
                             const std::string& checkpoint_dir,
                             const SaveCheckpointOptions& options) {
  HF_RETURN_IF_ERROR(GetDefaultStrategy(StrategyAction::kSaveSharded,
                                        options.config.sharded_backend,
                                        options.config.sharded_backend_version)
                         .status());
  HF_RETURN_IF_ERROR(CheckDirectoryExists(checkpoint_dir));
  if (options.validate_access_integrity) {
    HF_RETURN_IF_ERROR(ValidateShardingIntegrity(ranks));
  }
  const bool sync = options.zarr.sync;
  if (!common_file.empty()) {
    HF_RETURN_IF_ERROR(WriteCommonFile(checkpoint_dir, common_file, sync));
  }
  for (const RankState& rank : ranks) {
    HF_RETURN_IF_ERROR(WriteObjectFiles(checkpoint_dir, rank.objects, sync));
  }
  const ZarrSaveShardedStrategy strategy;
  const std::vector<ShardedTensor> tensors = AllTensors(ranks);
  HF_RETURN_IF_ERROR(
      strategy.CreateArrays(tensors, checkpoint_dir, options.zarr));
  HF_ASSIGN_OR_RETURN(
      const Stats stats,
      strategy.WriteShards(tensors, checkpoint_dir, options.zarr));
  if (options.validate_access_integrity) {
    HF_RETURN_IF_ERROR(strategy.CheckWritten(tensors, checkpoint_dir));
  }
  HF_RETURN_IF_ERROR(SaveConfig(options.config, checkpoint_dir, sync));
  return stats;
}

Result<std::vector<RankResult>> LoadCheckpoint(
    std::span<const RankState> ranks, const std::string& checkpoint_dir,
    const LoadCheckpointOptions& options) {
  HF_ASSIGN_OR_RETURN(const CheckpointingConfig config,
                      OpenConfig(checkpoint_dir));
  HF_RETURN_IF_ERROR(GetDefaultStrategy(StrategyAction::kLoadSharded,
                                        config.sharded_backend,
                                        config.sharded_backend_version)
                         .status());
  HF_RETURN_IF_ERROR(GetDefaultStrategy(StrategyAction::kLoadCommon,
                                        config.common_backend,
                                        config.common_backend_version)
                         .status());
  KeySet stored_keys;
  KeySet all_keys;
  if (NeedsCheckpointKeys(options.strict)) {
    HF_ASSIGN_OR_RETURN(const ShardedMetadata metadata,
                        LoadShardedMetadata(checkpoint_dir));
    stored_keys = KeysOf(metadata);
    for (const RankState& rank : ranks) all_keys.merge(KeysOf(rank));
  }
  Status integrity;
  if (options.validate_access_integrity) {
    integrity = ValidateShardingIntegrity(ranks);
  }
  std::vector<RankResult> results;
  for (const RankState& rank : ranks) {
    Result<StrictOutcome> strict =
        ApplyStrictness(options.strict, stored_keys, KeysOf(rank), all_keys);
    if (!strict.ok() || !integrity.ok()) {
      RankResult failed;
      failed.status = strict.ok() ? integrity : strict.status();
      results.push_back(std::move(failed));
      continue;
    }
    results.push_back(RankLoader(rank, checkpoint_dir, options.zarr)
                          .Load(*std::move(strict)));
  }
  return results;
}

}  // namespace holdfast::megatron
