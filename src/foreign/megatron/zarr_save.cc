#include <map>
#include <mutex>
#include <set>

#include "foreign/megatron/chunk_writer.h"
#include "foreign/megatron/error.h"
#include "foreign/megatron/files.h"
#include "foreign/megatron/python_text.h"
#include "formats/zarr/format/chunk_key.h"
#include "ground/base/executor.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "stores/place/directory_ops.h"

namespace holdfast::megatron {
namespace {

using Tensors = std::span<const ShardedTensor>;

Result<std::shared_ptr<Store>> OpenForSave(const Place& directory) {
  // In an object store, writing the first object creates the directory.
  if (directory.is_remote()) return directory.OpenStore();
  HF_ASSIGN_OR_RETURN(const bool exists, LeadsToDirectory(directory));
  if (!exists) {
    return MakeError(
        StatusCode::kNotFound, "SAVE_DIR_MISSING", "FileNotFoundError",
        "[Errno 2] No such file or directory: " + PythonRepr(directory.path()));
  }
  return directory.OpenStore();
}

// The arrays of this rank's main replicas, by key. Each array is opened once.
class OpenArrays {
 public:
  OpenArrays(std::shared_ptr<Store> store, Executor& executor)
      : store_(std::move(store)), executor_(executor) {}

  // Returns an array for each tensor; null for replicas that are not main.
  Result<std::vector<ArrayState>> Open(Tensors tensors) {
    std::map<std::string_view, size_t> places;
    std::vector<std::string_view> keys;
    for (const ShardedTensor& tensor : tensors) {
      if (!IsMainReplica(tensor.replica_id)) continue;
      if (places.emplace(tensor.key, keys.size()).second) {
        keys.push_back(tensor.key);
      }
    }
    std::vector<ArrayState> opened(keys.size());
    HF_RETURN_IF_ERROR(
        executor_.ParallelFor(keys.size(), [&](size_t i, int) -> Status {
          HF_ASSIGN_OR_RETURN(opened[i],
                              OpenArray(store_, keys[i], LoadMode::kZarr));
          return Status();
        }));
    std::vector<ArrayState> states;
    for (const ShardedTensor& tensor : tensors) {
      const bool is_main = IsMainReplica(tensor.replica_id);
      states.push_back(is_main ? opened[places.at(tensor.key)] : nullptr);
    }
    return states;
  }

 private:
  const std::shared_ptr<Store> store_;
  Executor& executor_;
};

// Writes parts, and syncs the files that are shared with other ranks.
class PartWriter {
 public:
  PartWriter(ChunkWriter writer, bool sync)
      : writer_(std::move(writer)), sync_(sync) {}

  Status Write(const std::vector<ChunkPart>& parts, Executor& executor,
               const CancelToken* cancel) {
    return executor.ParallelFor(
        parts.size(),
        [&](size_t i, int) -> Status {
          HF_ASSIGN_OR_RETURN(const bool is_shared,
                              writer_.Write(parts[i], sync_));
          if (is_shared) NoteShared(parts[i]);
          return Status();
        },
        cancel);
  }

  Status SyncShared(Executor& executor) {
    if (!sync_) return Status();
    const std::vector<std::string> files(files_.begin(), files_.end());
    HF_RETURN_IF_ERROR(executor.ParallelFor(files.size(), [&](size_t i, int) {
      return SyncFile(Place(files[i]));
    }));
    for (const std::string& directory : directories_) {
      HF_RETURN_IF_ERROR(SyncDirectory(Place(directory)));
    }
    return Status();
  }

 private:
  void NoteShared(const ChunkPart& part) {
    const std::string key = zarr::ChunkKey(
        part.array->prefix, part.array->metadata(), part.chunk_index);
    std::lock_guard lock(mutex_);
    files_.insert(part.array->store->Describe(key));
    directories_.insert(part.array->path);
  }

  const ChunkWriter writer_;
  const bool sync_;
  std::mutex mutex_;
  std::set<std::string> files_;
  std::set<std::string> directories_;
};

// Returns the region that the fragments cover. If they do not divide the tensor
// evenly, the remainder is never written.
Box WrittenBox(const ShardedTensor& tensor, const Shape& chunks) {
  Box box = BoxOf(tensor.global_shape);
  for (size_t i = 0; i < chunks.size(); ++i) {
    box.shape[i] = chunks[i] * (*tensor.axis_fragmentations)[i];
  }
  return box;
}

Status CheckChunkFiles(const ZarrArray::State& array,
                       const ShardedTensor& tensor) {
  HF_ASSIGN_OR_RETURN(const Shape chunks, tensor.MaxAllowedChunks());
  const ChunkGrid grid = array.grid();
  const uint64_t chunk_bytes =
      static_cast<uint64_t>(ElementCount(grid.chunk_shape)) *
      DTypeBytes(tensor.dtype);
  return ForEachChunk(
      grid, WrittenBox(tensor, chunks), [&](const Shape& index) -> Status {
        const std::string key =
            zarr::ChunkKey(array.prefix, array.metadata(), index);
        const Result<ObjectInfo> info = array.store->Stat(key);
        if (info.status().code() == StatusCode::kNotFound) {
          return CheckpointingError(
              StatusCode::kDataLoss, "ABSENT_CHUNK",
              "Chunk " + array.store->Describe(key) +
                  " was not written: a rank did not finish its save");
        }
        HF_RETURN_IF_ERROR(info.status());
        if (info->byte_count == chunk_bytes) return Status();
        return MakeError(StatusCode::kDataLoss, "CHUNK_SIZE", "ValueError",
                         "Chunk " + array.store->Describe(key) + " has " +
                             std::to_string(info->byte_count) +
                             " bytes, want " + std::to_string(chunk_bytes));
      });
}

}  // namespace

Result<ZarrArray> CreateZarrArray(const ShardedTensor& tensor,
                                  const std::string& checkpoint_dir,
                                  bool sync) {
  HF_ASSIGN_OR_RETURN(const auto store, OpenForSave(Place(checkpoint_dir)));
  HF_ASSIGN_OR_RETURN(ArrayState state, CreateArray(store, tensor, sync));
  if (sync) HF_RETURN_IF_ERROR(store->SyncNames());
  return ZarrArray(std::move(state));
}

Result<std::vector<std::optional<ZarrArray>>> CreateOrOpenZarrArrays(
    std::span<const ShardedTensor> tensors, const std::string& checkpoint_dir,
    const std::function<Status()>& barrier, bool sync, bool store_zero_d) {
  const ZarrSaveShardedStrategy strategy;
  ZarrSaveOptions options;
  options.sync = sync;
  options.store_zero_d = store_zero_d;
  HF_RETURN_IF_ERROR(strategy.CreateArrays(tensors, checkpoint_dir, options));
  if (barrier) HF_RETURN_IF_ERROR(barrier());
  HF_ASSIGN_OR_RETURN(const auto store, OpenForSave(Place(checkpoint_dir)));
  Executor executor;
  HF_ASSIGN_OR_RETURN(const auto states,
                      OpenArrays(store, executor).Open(tensors));
  std::vector<std::optional<ZarrArray>> arrays;
  for (const ArrayState& state : states) {
    arrays.push_back(state ? std::optional<ZarrArray>(state) : std::nullopt);
  }
  return arrays;
}

Status SaveToExistingArray(const ShardedTensor& tensor,
                           const std::optional<ZarrArray>& array, bool sync) {
  if (!array || !IsMainReplica(tensor.replica_id)) return Status();
  const ZarrArray::State& state = array->state();
  const Place root(state.store->Describe(""));
  HF_ASSIGN_OR_RETURN(ChunkWriter writer, ChunkWriter::Open(root));
  HF_ASSIGN_OR_RETURN(const auto parts, PlanParts(state, tensor));
  Executor executor;
  PartWriter part_writer(std::move(writer), sync);
  HF_RETURN_IF_ERROR(part_writer.Write(parts, executor, nullptr));
  HF_RETURN_IF_ERROR(part_writer.SyncShared(executor));
  return sync ? state.store->SyncNames() : Status();
}

Status ZarrSaveShardedStrategy::CreateArrays(
    std::span<const ShardedTensor> tensors, const std::string& checkpoint_dir,
    const ZarrSaveOptions& options) const {
  return CatchBadAlloc([&]() -> Status {
    HF_ASSIGN_OR_RETURN(const auto store, OpenForSave(Place(checkpoint_dir)));
    Executor executor(options.run.threads);
    HF_RETURN_IF_ERROR(
        executor.ParallelFor(tensors.size(), [&](size_t i, int) -> Status {
          if (!ShouldCreateArray(tensors[i], options.store_zero_d)) {
            return Status();
          }
          return CreateArray(store, tensors[i], options.sync).status();
        }));
    return options.sync ? store->SyncNames() : Status();
  });
}

Result<Stats> ZarrSaveShardedStrategy::WriteShards(
    std::span<const ShardedTensor> tensors, const std::string& checkpoint_dir,
    const ZarrSaveOptions& options) const {
  return CatchBadAlloc([&]() -> Result<Stats> {
    const CancelToken cancel(options.run.cancel);
    const Place directory(checkpoint_dir);
    HF_ASSIGN_OR_RETURN(const auto store, OpenForSave(directory));
    HF_ASSIGN_OR_RETURN(ChunkWriter writer, ChunkWriter::Open(directory));
    Executor executor(options.run.threads);
    HF_ASSIGN_OR_RETURN(const auto states,
                        OpenArrays(store, executor).Open(tensors));
    Stats stats;
    std::vector<ChunkPart> parts;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!states[i]) continue;
      HF_ASSIGN_OR_RETURN(auto planned, PlanParts(*states[i], tensors[i]));
      for (ChunkPart& part : planned) {
        stats.decoded_bytes += part.byte_count();
        parts.push_back(std::move(part));
      }
    }
    stats.stored_bytes = stats.decoded_bytes;
    stats.chunk_count = parts.size();
    PartWriter part_writer(std::move(writer), options.sync);
    HF_RETURN_IF_ERROR(part_writer.Write(parts, executor, &cancel));
    HF_RETURN_IF_ERROR(part_writer.SyncShared(executor));
    if (options.sync) HF_RETURN_IF_ERROR(store->SyncNames());
    return stats;
  });
}

Status ZarrSaveShardedStrategy::CheckWritten(
    std::span<const ShardedTensor> tensors,
    const std::string& checkpoint_dir) const {
  HF_ASSIGN_OR_RETURN(const auto store, OpenForSave(Place(checkpoint_dir)));
  for (const ShardedTensor& tensor : tensors) {
    if (!ShouldCreateArray(tensor)) continue;
    HF_ASSIGN_OR_RETURN(const ArrayState array,
                        OpenArray(store, tensor.key, LoadMode::kZarr));
    HF_RETURN_IF_ERROR(CheckChunkFiles(*array, tensor));
  }
  return Status();
}

Result<Stats> ZarrSaveShardedStrategy::Save(
    std::span<const ShardedTensor> tensors, const std::string& checkpoint_dir,
    const std::function<Status()>& barrier,
    const ZarrSaveOptions& options) const {
  HF_RETURN_IF_ERROR(CreateArrays(tensors, checkpoint_dir, options));
  if (barrier) HF_RETURN_IF_ERROR(barrier());
  HF_ASSIGN_OR_RETURN(const Stats stats,
                      WriteShards(tensors, checkpoint_dir, options));
  if (barrier) HF_RETURN_IF_ERROR(barrier());
  HF_RETURN_IF_ERROR(CheckWritten(tensors, checkpoint_dir));
  return stats;
}

}  // namespace holdfast::megatron
