#include "checkpoint/restore.h"

#include <algorithm>

#include "base/crc32c.h"
#include "base/status_macros.h"
#include "tensor/copy.h"
#include "zarr/format/chunk_key.h"
#include "zarr/read_chunk.h"

namespace holdfast {
namespace {

// Small enough that the bytes are still in the cache when they are summed.
constexpr size_t kVerifyPieceBytes = 256 << 10;

// Chunks up to this size are not worth a look at their file.
constexpr size_t kSmallChunkBytes = 1 << 20;

std::string At(const PlannedChunk& chunk, const RestoreTarget& target) {
  std::string text =
      "leaf " + target.leaf->info.name + ": chunk " + BoxToString(chunk.box);
  if (chunk.location.store != nullptr && !chunk.location.inline_value) {
    text += ": " + chunk.location.store->Describe(chunk.location.key) + " at " +
            std::to_string(chunk.location.offset);
  }
  return text;
}

Result<PlannedChunk> LocateChunk(const RestoreTarget& target, uint32_t index,
                                 const Shape& chunk_index) {
  const ArrayLayout& layout = *target.leaf->layout;
  PlannedChunk chunk;
  chunk.target = index;
  chunk.box = layout.grid.ChunkBox(chunk_index);
  const std::string key =
      zarr::ChunkKey(target.leaf->prefix, layout.format.metadata, chunk_index);
  Result<ObjectLocation> location = target.item->array_store().Locate(key);
  if (location.ok()) {
    chunk.location = std::move(location).value();
    return chunk;
  }
  if (location.status().code() != StatusCode::kNotFound) {
    return location.status().WithContext("leaf " + target.leaf->info.name);
  }
  if (target.item->refuses_missing_chunks()) {
    return NotFoundError(
        "leaf " + target.leaf->info.name + ": chunk " + BoxToString(chunk.box) +
        " is missing: " + std::string(location.status().message()));
  }
  chunk.is_missing = true;
  return chunk;
}

// Sizes come from a file: a chunk must be explained by its stored bytes before
// memory is taken for it.
Status CheckStoredSize(const PlannedChunk& chunk, const RestoreTarget& target) {
  const ArrayLayout& layout = *target.leaf->layout;
  // A shard may leave out what equals the fill value.
  const bool may_be_sparse =
      layout.format.shard != nullptr && !target.item->refuses_missing_chunks();
  if (chunk.is_missing || may_be_sparse ||
      layout.chunk_bytes <= kSmallChunkBytes) {
    return Status();
  }
  uint64_t stored_bytes = chunk.location.byte_count;
  if (chunk.location.inline_value) {
    stored_bytes = chunk.location.inline_value->size();
  } else if (stored_bytes == kToEnd) {
    const Result<ObjectInfo> info =
        chunk.location.store->Stat(chunk.location.key);
    if (!info.ok()) return Status();  // absent: found out when it is read
    stored_bytes = info->byte_count;
  }
  return zarr::CheckExpansion(stored_bytes, layout.chunk_bytes,
                              layout.codec_count);
}

// Runs the reads of a plan.
class Restorer {
 public:
  Restorer(const std::vector<RestoreTarget>& targets, const RestorePlan& plan,
           const RestoreOptions& options, Run& run)
      : targets_(targets),
        plan_(plan),
        options_(options),
        run_(run),
        scratch_(run.executor().thread_count()) {}

  Status Execute(size_t read_index, int worker) {
    const PlannedRead& read = plan_.reads[read_index];
    CodecContext& context = run_.codec_context(worker);
    if (read.byte_count == 0) return ExecuteUnranged(read, context);
    if (read.last - read.first == 1 && ReadsInPlace(plan_.chunks[read.first])) {
      return ReadInPlace(plan_.chunks[read.first]);
    }
    return ExecuteRanged(read, scratch_[worker], context);
  }

 private:
  const RestoreTarget& TargetOf(const PlannedChunk& chunk) const {
    return targets_[chunk.target];
  }

  ArrayView ViewOf(const PlannedChunk& chunk) const {
    return Subview(TargetOf(chunk).view, chunk.box);
  }

  // The stored bytes are the wanted bytes, in the wanted order.
  bool ReadsInPlace(const PlannedChunk& chunk) const {
    const ArrayLayout& layout = *TargetOf(chunk).leaf->layout;
    return layout.is_readable_in_place &&
           chunk.box.shape == layout.grid.chunk_shape &&
           chunk.location.byte_count == layout.chunk_bytes &&
           IsContiguous(ViewOf(chunk));
  }

  // Null when the value needs no check beyond its codec's own.
  const ValueDigest* DigestOf(const PlannedChunk& chunk) const {
    const RestoreTarget& target = TargetOf(chunk);
    const DigestIndex* digests = target.item->digests();
    if (!options_.verify || digests == nullptr ||
        target.leaf->layout->has_frame_checksum ||
        chunk.location.inline_value || chunk.is_missing) {
      return nullptr;
    }
    return digests->FindValue(chunk.location.key, chunk.location.offset);
  }

  Status ReadInPlace(const PlannedChunk& chunk) {
    const ArrayView view = ViewOf(chunk);
    const ValueDigest* digest = DigestOf(chunk);
    const size_t byte_count = chunk.location.byte_count;
    const size_t piece_bytes_max =
        digest != nullptr ? kVerifyPieceBytes : byte_count;
    uint32_t crc = 0;
    for (size_t done = 0; done < byte_count;) {
      const size_t piece_bytes = std::min(piece_bytes_max, byte_count - done);
      const std::span<char> piece(view.data + done, piece_bytes);
      HF_RETURN_IF_ERROR(
          chunk.location.store
              ->ReadInto(chunk.location.key, chunk.location.offset + done,
                         piece)
              .WithContext("leaf " + TargetOf(chunk).leaf->info.name));
      if (digest != nullptr) {
        crc = ExtendCrc32c(crc, {piece.data(), piece.size()});
      }
      done += piece_bytes;
    }
    if (digest != nullptr &&
        (crc != digest->crc32c || byte_count != digest->byte_count)) {
      return DataLossError(At(chunk, TargetOf(chunk)) +
                           ": bytes differ from when they were saved");
    }
    run_.AddDone(byte_count);
    return Status();
  }

  Status Decode(const PlannedChunk& chunk, std::string_view encoded,
                CodecContext& context) {
    const RestoreTarget& target = TargetOf(chunk);
    if (const ValueDigest* digest = DigestOf(chunk)) {
      const Status checked = DigestIndex::CheckValue(*digest, encoded);
      if (!checked.ok()) return checked.WithContext(At(chunk, target));
    }
    const ArrayView view = ViewOf(chunk);
    const Shape origin(view.shape.size(), 0);
    const Status decoded = target.leaf->layout->format.codec->Decode(
        encoded, origin, view, context);
    if (!decoded.ok()) return decoded.WithContext(At(chunk, target));
    run_.AddDone(ElementCount(view.shape) * DTypeBytes(view.dtype));
    return Status();
  }

  Status ExecuteUnranged(const PlannedRead& read, CodecContext& context) {
    for (size_t i = read.first; i < read.last; ++i) {
      const PlannedChunk& chunk = plan_.chunks[i];
      if (chunk.is_missing) {
        const std::string& fill =
            TargetOf(chunk).leaf->layout->format.metadata.fill_element;
        FillStrided(ViewOf(chunk), fill.data());
      } else if (chunk.location.inline_value) {
        HF_RETURN_IF_ERROR(
            Decode(chunk, chunk.location.inline_value->view(), context));
      } else {
        HF_RETURN_IF_ERROR(ReadWholeObject(chunk, context));
      }
    }
    return Status();
  }

  // A file a chunk: its size is not known before it is opened.
  Status ReadWholeObject(const PlannedChunk& chunk, CodecContext& context) {
    const RestoreTarget& target = TargetOf(chunk);
    const ByteBudget::Lease lease =
        run_.budget().Acquire(target.leaf->layout->chunk_bytes);
    const Result<Bytes> encoded =
        chunk.location.store->Read(chunk.location.key);
    if (encoded.ok()) return Decode(chunk, encoded->view(), context);
    const bool is_absent = encoded.status().code() == StatusCode::kNotFound;
    if (is_absent && !target.item->refuses_missing_chunks()) {
      FillStrided(ViewOf(chunk),
                  target.leaf->layout->format.metadata.fill_element.data());
      return Status();
    }
    return encoded.status().WithContext("leaf " + target.leaf->info.name +
                                        ": chunk " + BoxToString(chunk.box));
  }

  // One buffer a worker, so that its pages are touched once and not once a
  // chunk.
  Status ReadToScratch(const PlannedRead& read, const ObjectLocation& where,
                       Buffer& scratch) {
    if (scratch.size() < read.byte_count) {
      // Sizes come from a file: memory only for what the data file holds.
      HF_ASSIGN_OR_RETURN(const ObjectInfo info, where.store->Stat(where.key));
      if (info.byte_count < read.byte_count) {
        return OutOfRangeError("the value is larger than its file (got " +
                               std::to_string(info.byte_count) +
                               " bytes, want " +
                               std::to_string(read.byte_count) + ")");
      }
      scratch.Reserve(read.byte_count);
    }
    return where.store->ReadInto(where.key, read.offset,
                                 {scratch.data(), read.byte_count});
  }

  Status ExecuteRanged(const PlannedRead& read, Buffer& scratch,
                       CodecContext& context) {
    const PlannedChunk& first = plan_.chunks[read.first];
    const ByteBudget::Lease lease = run_.budget().Acquire(read.byte_count);
    const Status status = ReadToScratch(read, first.location, scratch);
    if (!status.ok()) return status.WithContext(At(first, TargetOf(first)));
    for (size_t i = read.first; i < read.last; ++i) {
      const ObjectLocation& location = plan_.chunks[i].location;
      const std::string_view encoded(
          scratch.data() + (location.offset - read.offset),
          location.byte_count);
      HF_RETURN_IF_ERROR(Decode(plan_.chunks[i], encoded, context));
    }
    return Status();
  }

  const std::vector<RestoreTarget>& targets_;
  const RestorePlan& plan_;
  const RestoreOptions& options_;
  Run& run_;
  std::vector<Buffer> scratch_;
};

}  // namespace

Status CheckChunkCount(const StoredLeaf& leaf) {
  const int64_t chunk_count = leaf.layout->grid.ChunkCount();
  if (chunk_count <= kChunkCountMax) return Status();
  return ResourceExhaustedError(
      "leaf " + leaf.info.name + ": too many chunks to read at once (got " +
      std::to_string(chunk_count) + ", want at most " +
      std::to_string(kChunkCountMax) + "); read it in slices");
}

Result<std::vector<PlannedChunk>> LocateChunks(
    const std::vector<RestoreTarget>& targets, Run& run) {
  std::vector<std::vector<PlannedChunk>> parts(targets.size());
  HF_RETURN_IF_ERROR(run.executor().ParallelFor(
      targets.size(),
      [&](size_t i, int) -> Status {
        HF_RETURN_IF_ERROR(CheckChunkCount(*targets[i].leaf));
        const ChunkGrid& grid = targets[i].leaf->layout->grid;
        return ForEachChunk(
            grid, BoxOf(grid.array_shape),
            [&](const Shape& chunk_index) -> Status {
              HF_RETURN_IF_ERROR(run.cancel().Check());
              HF_ASSIGN_OR_RETURN(PlannedChunk chunk,
                                  LocateChunk(targets[i], i, chunk_index));
              const Status size_status = CheckStoredSize(chunk, targets[i]);
              if (!size_status.ok()) {
                return size_status.WithContext(At(chunk, targets[i]));
              }
              parts[i].push_back(std::move(chunk));
              return Status();
            });
      },
      &run.cancel()));
  std::vector<PlannedChunk> chunks;
  for (std::vector<PlannedChunk>& part : parts) {
    std::move(part.begin(), part.end(), std::back_inserter(chunks));
  }
  return chunks;
}

Status Restore(const std::vector<RestoreTarget>& targets,
               std::vector<PlannedChunk> chunks, const RestoreOptions& options,
               Run& run, Stats& stats) {
  Stopwatch watch;
  uint64_t total_bytes = 0;
  for (const RestoreTarget& target : targets) {
    total_bytes +=
        ElementCount(target.view.shape) * DTypeBytes(target.view.dtype);
  }
  const RestorePlan plan = MakeRestorePlan(std::move(chunks));
  stats.plan_seconds += watch.Lap();
  stats.chunk_count += plan.chunks.size();
  stats.decoded_bytes += total_bytes;
  for (const PlannedChunk& chunk : plan.chunks) {
    const auto& inline_value = chunk.location.inline_value;
    if (inline_value) {
      stats.stored_bytes += inline_value->size();
    } else if (chunk.location.byte_count != kToEnd) {
      stats.stored_bytes += chunk.location.byte_count;
    }
  }
  run.StartPhase("read", total_bytes);
  Restorer restorer(targets, plan, options, run);
  HF_RETURN_IF_ERROR(run.executor().ParallelFor(
      plan.reads.size(),
      [&](size_t read, int worker) { return restorer.Execute(read, worker); },
      &run.cancel()));
  stats.transfer_seconds += watch.Lap();
  stats.in_flight_bytes_peak = run.budget().peak_bytes();
  return Status();
}

Status RestoreBox(const RestoreTarget& leaf_and_view, const Box& box,
                  CodecContext& context) {
  const StoredLeaf& leaf = *leaf_and_view.leaf;
  const Item& item = *leaf_and_view.item;
  const ArrayLayout& layout = *leaf.layout;
  if (IsEmpty(box)) return Status();
  return ForEachChunk(
      layout.grid, box, [&](const Shape& chunk_index) -> Status {
        const Box chunk_box = layout.grid.ChunkBox(chunk_index);
        const Box part = *Intersect(chunk_box, box);
        Box in_chunk = part, in_target = part;
        for (size_t d = 0; d < part.origin.size(); ++d) {
          in_chunk.origin[d] -= chunk_box.origin[d];
          in_target.origin[d] -= box.origin[d];
        }
        const std::string key =
            zarr::ChunkKey(leaf.prefix, layout.format.metadata, chunk_index);
        const ArrayView target = Subview(leaf_and_view.view, in_target);
        const Status read = zarr::ReadChunkBox(
            item.array_store(), key, layout.format, in_chunk, target, context);
        if (read.code() == StatusCode::kNotFound &&
            !item.refuses_missing_chunks()) {
          FillStrided(target, layout.format.metadata.fill_element.data());
          return Status();
        }
        return read.WithContext("leaf " + leaf.info.name + ": chunk " +
                                BoxToString(chunk_box));
      });
}

}  // namespace holdfast
