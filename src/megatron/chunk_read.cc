#include "megatron/chunk_read.h"

#include <algorithm>
#include <mutex>

#include "base/status_macros.h"
#include "megatron/error.h"
#include "tensor/copy.h"
#include "zarr/format/chunk_key.h"
#include "zarr/read_plan.h"

namespace holdfast::megatron {
namespace {

// Parts of uncompressed chunks above this are cut for more threads.
constexpr size_t kPieceBytesMax = size_t{8} << 20;
// Chunks planned and read at a time.
constexpr size_t kPlannedChunksMax = size_t{1} << 15;

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

uint64_t StoredBytes(const ChunkRead& read) {
  return static_cast<uint64_t>(ElementCount(read.box_in_chunk.shape)) *
         DTypeBytes(read.array->format.metadata.dtype);
}

// False when there is no such chunk; `target` then has the fill value.
Result<bool> ReadStored(const ChunkRead& read, const ArrayView& target,
                        LoadMode mode, Run& run, int worker) {
  const zarr::ChunkFormat& format = read.array->format;
  ByteBudget::Lease lease;
  if (!format.is_raw) {
    lease = run.budget().Acquire(
        static_cast<size_t>(ElementCount(format.metadata.chunk_shape)) *
        DTypeBytes(format.metadata.dtype));
  }
  const Status status = zarr::ReadChunkBox(
      *read.array->store, read.key, format, read.box_in_chunk, target,
      run.codec_context(worker), &run.cancel());
  if (status.ok()) return true;
  if (status.code() != StatusCode::kNotFound) {
    return ChunkError(*read.array, read.key, mode, status);
  }
  FillStrided(target, format.metadata.fill_element.data());
  return false;
}

// As ReadStored, elements cast where the target has another dtype.
Result<bool> ReadOne(const ChunkRead& read, LoadMode mode, Run& run,
                     int worker) {
  const DType stored = read.array->format.metadata.dtype;
  if (read.target.dtype == stored) {
    return ReadStored(read, read.target, mode, run, worker);
  }
  HF_ASSIGN_OR_RETURN(Array scratch,
                      Array::Allocate(stored, read.box_in_chunk.shape));
  HF_ASSIGN_OR_RETURN(
      const bool is_there,
      ReadStored(read, scratch.mutable_view(), mode, run, worker));
  ConvertStrided(scratch.view(), read.target);
  return is_there;
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

bool MayBeAbsent(const ZarrArray::State& array, const Shape& chunk_index) {
  const zarr::ArrayMetadata& metadata = array.format.metadata;
  if (!metadata.fill_is_null) return true;
  for (size_t i = 0; i < chunk_index.size(); ++i) {
    const int64_t whole_chunks = metadata.shape[i] / metadata.chunk_shape[i];
    if (whole_chunks > 0 && chunk_index[i] >= whole_chunks) return true;
  }
  return false;
}

Status PartReader::CheckAbsent(const std::vector<AbsentChunk>& absent) const {
  constexpr size_t kNamedMax = 20;
  if (absent_chunks_ == AbsentChunks::kFill) return Status();
  size_t count = 0;
  std::string names;
  std::string_view last;
  for (const AbsentChunk& chunk : absent) {
    if (chunk.key == last) continue;
    last = chunk.key;
    const auto index = zarr::ParseChunkKey(
        chunk.array->format.metadata,
        std::string_view(chunk.key).substr(chunk.array->prefix.size()));
    if (absent_chunks_ == AbsentChunks::kAsRecorded && index &&
        MayBeAbsent(*chunk.array, *index)) {
      continue;
    }
    if (++count <= kNamedMax) names += (count == 1 ? "" : ", ") + chunk.key;
  }
  if (count == 0) return Status();
  if (count > kNamedMax) names += ", ...";
  return CheckpointingError(
      StatusCode::kDataLoss, "ABSENT_CHUNK",
      std::to_string(count) + (count == 1 ? " chunk" : " chunks") + " of " +
          place_ + (count == 1 ? " is" : " are") + " not there: " + names +
          ". The elements were never written, or are lost");
}

Status PartReader::Add(const ZarrArray::State* array, size_t tensor,
                       const StoredPart& part) {
  for (const Box& box : zarr::SplitByChunks(array->format.metadata, part.box,
                                            kPlannedChunksMax)) {
    const ArrayView target =
        Subview(part.target, Relative(box, part.box.origin));
    PlanReads(array, tensor, {box, target}, planned_);
    if (planned_.size() >= kPlannedChunksMax) {
      HF_RETURN_IF_ERROR(ReadPlanned());
    }
  }
  return Status();
}

Result<std::vector<AbsentChunk>> PartReader::Finish() {
  HF_RETURN_IF_ERROR(ReadPlanned());
  return std::move(absent_);
}

Status PartReader::ReadPlanned() {
  std::mutex mutex;
  std::vector<size_t> missing;
  HF_RETURN_IF_ERROR(run_.executor().ParallelFor(
      planned_.size(),
      [&](size_t i, int worker) -> Status {
        HF_ASSIGN_OR_RETURN(const bool is_there,
                            ReadOne(planned_[i], mode_, run_, worker));
        run_.AddDone(StoredBytes(planned_[i]));
        if (is_there) return Status();
        std::lock_guard lock(mutex);
        missing.push_back(i);
        return Status();
      },
      &run_.cancel()));
  std::sort(missing.begin(), missing.end());
  std::vector<AbsentChunk> absent;
  for (const size_t i : missing) {
    absent.push_back({planned_[i].array, planned_[i].tensor, planned_[i].key});
  }
  chunk_count_ += planned_.size();
  planned_.clear();
  HF_RETURN_IF_ERROR(CheckAbsent(absent));
  const size_t kept =
      std::min(absent.size(), kListedAbsentMax - absent_.size());
  absent_.insert(absent_.end(), absent.begin(),
                 absent.begin() + static_cast<std::ptrdiff_t>(kept));
  return Status();
}

}  // namespace holdfast::megatron
