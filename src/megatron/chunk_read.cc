#include "megatron/chunk_read.h"

#include <algorithm>
#include <mutex>

#include "base/status_macros.h"
#include "megatron/error.h"
#include "tensor/copy.h"
#include "zarr/context_pool.h"
#include "zarr/read_plan.h"

namespace holdfast::megatron {
namespace {

// Parts of uncompressed chunks above this are cut for more threads.
constexpr size_t kPieceBytesMax = size_t{8} << 20;

std::string SizeText(uint64_t stored_bytes, uint64_t chunk_bytes) {
  if (stored_bytes > chunk_bytes) {
    return "End of data expected; remaining length: " +
           std::to_string(stored_bytes - chunk_bytes) + "; at byte " +
           std::to_string(chunk_bytes);
  }
  return "Not enough data: expected at least " + std::to_string(chunk_bytes) +
         " or " + std::to_string(chunk_bytes - stored_bytes) +
         " more; at byte " + std::to_string(stored_bytes);
}

std::string NumpyTuple(const Shape& shape) {
  std::string text;
  for (const int64_t extent : shape) {
    text += (text.empty() ? "" : ",") + std::to_string(extent);
  }
  return "(" + text + (shape.size() == 1 ? ",)" : ")");
}

Status ChunkSizeError(const ZarrArray::State& array, const std::string& key,
                      LoadMode mode, uint64_t stored_bytes,
                      uint64_t chunk_bytes) {
  const std::string place = array.store->Describe(key);
  const size_t item_bytes = DTypeBytes(array.format.metadata.dtype);
  std::string text;
  if (mode == LoadMode::kTensorStore) {
    text = "FAILED_PRECONDITION: Error reading local file \"" + place +
           "\": " + SizeText(stored_bytes, chunk_bytes);
  } else if (stored_bytes % item_bytes != 0) {
    text =
        "When changing to a larger dtype, its size must be a divisor of the "
        "total size in bytes of the last axis of the array. Chunk " +
        place + ": " + SizeText(stored_bytes, chunk_bytes);
  } else {
    text = "cannot reshape array of size " +
           std::to_string(stored_bytes / item_bytes) + " into shape " +
           NumpyTuple(array.format.metadata.chunk_shape) + ". Chunk " + place +
           ": " + SizeText(stored_bytes, chunk_bytes);
  }
  return MakeError(StatusCode::kDataLoss, "CHUNK_SIZE", "ValueError", text);
}

}  // namespace

void PlanReads(const ZarrArray::State* array, size_t tensor,
               const StoredPart& part, std::vector<ChunkRead>& reads) {
  const zarr::ArrayMetadata& metadata = array->format.metadata;
  const size_t item_bytes = DTypeBytes(metadata.dtype);
  for (zarr::ReadItem& item :
       zarr::PlanRead(metadata, array->prefix, part.box)) {
    const ArrayView target = Subview(part.target, item.box_in_target);
    const Shape& shape = item.box_in_chunk.shape;
    const auto byte_count =
        static_cast<uint64_t>(ElementCount(shape)) * item_bytes;
    if (!array->format.is_raw || byte_count <= kPieceBytesMax) {
      reads.push_back({array, tensor, std::move(item.key),
                       std::move(item.box_in_chunk), target});
      continue;
    }
    const ChunkGrid pieces = {shape,
                              RowPieceShape(shape, item_bytes, kPieceBytesMax)};
    for (int64_t i = 0; i < pieces.ChunkCount(); ++i) {
      Box piece = pieces.ChunkBox(pieces.ChunkIndex(i));
      const ArrayView piece_target = Subview(target, piece);
      for (size_t axis = 0; axis < piece.origin.size(); ++axis) {
        piece.origin[axis] += item.box_in_chunk.origin[axis];
      }
      reads.push_back(
          {array, tensor, item.key, std::move(piece), piece_target});
    }
  }
}

Status ChunkError(const ZarrArray::State& array, const std::string& key,
                  LoadMode mode, const Status& status) {
  if (status.code() != StatusCode::kDataLoss) return status;
  const zarr::ArrayMetadata& metadata = array.format.metadata;
  const uint64_t chunk_bytes =
      static_cast<uint64_t>(ElementCount(metadata.chunk_shape)) *
      DTypeBytes(metadata.dtype);
  if (metadata.bytes_codecs.empty()) {
    const Result<ObjectInfo> info = array.store->Stat(key);
    if (info.ok() && info->byte_count != chunk_bytes) {
      return ChunkSizeError(array, key, mode, info->byte_count, chunk_bytes);
    }
  }
  return MakeError(StatusCode::kDataLoss, "CHUNK_DAMAGED", "ValueError",
                   status.message());
}

Result<std::vector<AbsentChunk>> ReadChunks(const std::vector<ChunkRead>& reads,
                                            LoadMode mode, Executor& executor,
                                            const CancelToken* cancel) {
  zarr::CodecContextPool contexts;
  std::mutex mutex;
  std::vector<size_t> absent;
  HF_RETURN_IF_ERROR(executor.ParallelFor(
      reads.size(),
      [&](size_t i, int) -> Status {
        const ChunkRead& read = reads[i];
        auto context = contexts.Take();
        const Status status = zarr::ReadChunkBox(
            *read.array->store, read.key, read.array->format, read.box_in_chunk,
            read.target, *context, cancel);
        if (status.ok()) return status;
        if (status.code() != StatusCode::kNotFound) {
          return ChunkError(*read.array, read.key, mode, status);
        }
        FillStrided(read.target,
                    read.array->format.metadata.fill_element.data());
        std::lock_guard lock(mutex);
        absent.push_back(i);
        return Status();
      },
      cancel));
  std::sort(absent.begin(), absent.end());
  std::vector<AbsentChunk> chunks;
  for (const size_t i : absent) {
    chunks.push_back({reads[i].tensor, reads[i].key});
  }
  return chunks;
}

}  // namespace holdfast::megatron
