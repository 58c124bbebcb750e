#include "foreign/megatron/chunk_read.h"

#include <algorithm>

#include "foreign/megatron/error.h"
#include "formats/zarr/format/chunk_key.h"
#include "formats/zarr/read_plan.h"
#include "ground/base/status_macros.h"
#include "ground/tensor/grid.h"

namespace holdfast::megatron {
namespace {

// The number of chunks planned and read at a time.
constexpr int64_t kPlannedChunksMax = int64_t{1} << 15;

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

Status ChunkSizeError(const ZarrArray::State& array, std::string_view key,
                      uint64_t stored_bytes, uint64_t chunk_bytes) {
  const std::string place = array.store->Describe(key);
  const size_t item_bytes = DTypeBytes(array.metadata().dtype);
  std::string text;
  if (array.mode == LoadMode::kTensorStore) {
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
           NumpyTuple(array.metadata().chunk_shape) + ". Chunk " + place +
           ": " + SizeText(stored_bytes, chunk_bytes);
  }
  return MakeError(StatusCode::kDataLoss, "CHUNK_SIZE", "ValueError", text);
}

}  // namespace

std::optional<Status> ZarrArray::State::Explain(const ReadableArray& /*array*/,
                                                std::string_view key,
                                                const Status& failure) const {
  return ChunkError(*this, key, failure);
}

Status ChunkError(const ZarrArray::State& array, std::string_view key,
                  const Status& status) {
  if (status.code() != StatusCode::kDataLoss) return status;
  const zarr::ArrayMetadata& metadata = array.metadata();
  const uint64_t chunk_bytes =
      static_cast<uint64_t>(ElementCount(metadata.chunk_shape)) *
      DTypeBytes(metadata.dtype);
  if (metadata.bytes_codecs.empty()) {
    const Result<ObjectInfo> info = array.store->Stat(key);
    if (info.ok() && info->byte_count != chunk_bytes) {
      return ChunkSizeError(array, key, info->byte_count, chunk_bytes);
    }
  }
  return MakeError(StatusCode::kDataLoss, "CHUNK_DAMAGED", "ValueError",
                   status.message());
}

bool MayBeAbsent(const ZarrArray::State& array, const Shape& chunk_index) {
  const zarr::ArrayMetadata& metadata = array.metadata();
  if (!metadata.fill_is_null) return true;
  for (size_t i = 0; i < chunk_index.size(); ++i) {
    const int64_t whole_chunks = metadata.shape[i] / metadata.chunk_shape[i];
    if (whole_chunks > 0 && chunk_index[i] >= whole_chunks) return true;
  }
  return false;
}

Status PartReader::CheckAbsent(const std::vector<AbsentPart>& absent) const {
  constexpr size_t kNamedMax = 20;
  if (absent_chunks_ == AbsentChunks::kFill) return Status();
  size_t count = 0;
  std::string names;
  std::string_view last;
  for (const AbsentPart& chunk : absent) {
    if (chunk.key == last) continue;
    last = chunk.key;
    const auto index = zarr::ParseChunkKey(
        chunk.array->metadata(),
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
  for (const Box& box :
       zarr::SplitByChunks(array->metadata(), part.box, kPlannedChunksMax)) {
    const ArrayView target =
        Subview(part.target, Relative(box, part.box.origin));
    planned_.push_back(
        {{array, array->stored(), box.origin, target}, array, tensor});
    planned_chunk_count_ += CountChunks(array->grid(), box);
    if (planned_chunk_count_ >= kPlannedChunksMax) {
      HF_RETURN_IF_ERROR(ReadPlanned());
    }
  }
  return Status();
}

Result<std::vector<AbsentPart>> PartReader::Finish(Stats& stats) {
  HF_RETURN_IF_ERROR(ReadPlanned());
  stats = stats_;
  return std::move(absent_);
}

Status PartReader::ReadPlanned() {
  // Restore needs the targets of one array to be adjacent.
  std::stable_sort(planned_.begin(), planned_.end(),
                   [](const Wanted& a, const Wanted& b) {
                     return std::less<>()(a.array, b.array);
                   });
  std::vector<RestoreTarget> targets;
  for (const Wanted& wanted : planned_) targets.push_back(wanted.target);
  HF_ASSIGN_OR_RETURN(RestorePlan plan, PlanRestore(std::move(targets), run_));
  std::vector<AbsentChunk> missing;
  HF_RETURN_IF_ERROR(Restore(std::move(plan), run_, stats_, &missing));
  std::vector<AbsentPart> absent;
  for (AbsentChunk& chunk : missing) {
    const Wanted& wanted = planned_[chunk.target];
    absent.push_back({wanted.array, wanted.tensor, std::move(chunk.key)});
  }
  std::stable_sort(absent.begin(), absent.end(),
                   [](const AbsentPart& a, const AbsentPart& b) {
                     return a.tensor < b.tensor;
                   });
  planned_.clear();
  planned_chunk_count_ = 0;
  HF_RETURN_IF_ERROR(CheckAbsent(absent));
  const size_t kept =
      std::min(absent.size(), kListedAbsentMax - absent_.size());
  absent_.insert(absent_.end(), absent.begin(),
                 absent.begin() + static_cast<std::ptrdiff_t>(kept));
  return Status();
}

}  // namespace holdfast::megatron
