#include "formats/zarr/read_chunk.h"

#include <algorithm>
#include <cassert>

#include "formats/zarr/raw_spans.h"
#include "ground/base/status_macros.h"
#include "ground/tensor/copy.h"

namespace holdfast::zarr {
namespace {

// Reads in flight together hold at most about this much scratch memory.
constexpr uint64_t kBatchBytes = uint64_t{16} << 20;
constexpr size_t kBatchRequests = 256;
// Inner chunks with gaps of at most this size are read together.
constexpr uint64_t kInnerGapBytesMax = uint64_t{64} << 10;
// The same limit for bytes on a server. Below the second bound, bytes there are
// joined even if they could be read in place.
constexpr int64_t kRemoteGapBytesMax = 1'000'000;
constexpr int64_t kRemoteDirectBytesMin = int64_t{4} << 20;
// Larger shards are never held in memory completely.
constexpr uint64_t kWholeShardBytesMax = uint64_t{64} << 20;
// From this size on, a copy costs more than a second request.
constexpr uint64_t kDirectInnerBytesMin = uint64_t{256} << 10;

Status NoMemory(uint64_t byte_count) {
  return ResourceExhaustedError("no memory for " + std::to_string(byte_count) +
                                " bytes of a chunk");
}

// An object of known size, in any store.
struct Located {
  Store* store;
  std::string key;
  uint64_t offset;
  uint64_t byte_count;

  bool is_remote() const { return store->requests_in_flight() > 1; }

  RangeRead Request(uint64_t at, std::span<char> target) const {
    return {key, offset + at, target};
  }
};

// The read of one chunk.
class ChunkReader {
 public:
  ChunkReader(Store& store, std::string_view key, const ChunkFormat& format,
              CodecContext& context, const CancelToken* cancel)
      : store_(store),
        key_(key),
        format_(format),
        context_(context),
        cancel_(cancel) {}

  Status Read(const Box& box, const ArrayView& target);

 private:
  struct PieceRange;
  struct Group;

  Status AtKey(const Status& status) const {
    if (status.ok()) return status;
    return status.WithContext("Error reading \"" + store_.Describe(key_) +
                              "\"");
  }
  bool WantsRanges(const std::vector<InnerPiece>& pieces) const;
  Result<Located> Sized(const ObjectLocation& location) const;
  Status DecodeWhole(std::string_view encoded, const Box& box,
                     const ArrayView& target);
  Status ReadWhole(const Box& box, const ArrayView& target);
  Status ReadBatch(const Located& object, std::vector<RangeRead>& requests);

  Status ReadRaw(const Located& object, const Box& box,
                 const ArrayView& target);
  Status ReadRawDirect(const Located& object, const RawPlan& plan,
                       const ArrayView& target);
  Status ReadRawJoined(const Located& object, const RawPlan& plan,
                       const ArrayView& target);

  Status ReadShard(const Located& object, const std::vector<InnerPiece>& pieces,
                   const ArrayView& target);
  Result<ShardIndex> ReadIndex(const Located& object) const;
  bool ReadsDirectly(const PieceRange& range, const ArrayView& target) const;
  Status ReadDirectPieces(const Located& object,
                          const std::vector<PieceRange>& ranges,
                          const ArrayView& target);
  Status ReadJoinedPieces(const Located& object,
                          std::span<const PieceRange> ranges,
                          const ArrayView& target);
  Status ReadGroups(const Located& object, std::vector<Group>& groups,
                    const ArrayView& target);

  Store& store_;
  const std::string_view key_;
  const ChunkFormat& format_;
  CodecContext& context_;
  const CancelToken* const cancel_;
};

// An inner chunk and its place in the shard.
struct ChunkReader::PieceRange {
  const InnerPiece* piece;
  ShardEntry entry;
};

// Inner chunks that one request reads.
struct ChunkReader::Group {
  uint64_t offset;
  uint64_t end;
  std::span<const PieceRange> ranges;
  Buffer bytes;
};

bool ChunkReader::WantsRanges(const std::vector<InnerPiece>& pieces) const {
  // A shard is read by ranges if only some inner chunks are wanted. A complete
  // shard costs one request, unless it is too large to hold.
  const uint64_t entry_count = format_.shard->entry_count();
  if (pieces.size() < entry_count) return true;
  // Divides, since a product of sizes from a file may overflow.
  if (entry_count > 1 &&
      entry_count > kWholeShardBytesMax / format_.shard->inner_bytes()) {
    return true;
  }
  return format_.shard->inner_is_raw() &&
         format_.shard->inner_bytes() >= kDirectInnerBytesMin;
}

Result<Located> ChunkReader::Sized(const ObjectLocation& location) const {
  Located object = {location.store, location.key, location.offset,
                    location.byte_count};
  if (object.byte_count == kToEnd) {
    HF_ASSIGN_OR_RETURN(const ObjectInfo info, object.store->Stat(object.key));
    object.byte_count = info.byte_count - object.offset;
  }
  return object;
}

Status ChunkReader::DecodeWhole(std::string_view encoded, const Box& box,
                                const ArrayView& target) {
  return format_.codec->Decode(encoded, box.origin, target, context_);
}

Status ChunkReader::ReadWhole(const Box& box, const ArrayView& target) {
  HF_ASSIGN_OR_RETURN(const Bytes encoded, store_.Read(key_));
  return DecodeWhole(encoded.view(), box, target);
}

Status ChunkReader::ReadBatch(const Located& object,
                              std::vector<RangeRead>& requests) {
  if (requests.empty()) return Status();
  const Status status = object.store->ReadBatch(requests, cancel_);
  requests.clear();
  return status;
}

Status ChunkReader::ReadRawDirect(const Located& object, const RawPlan& plan,
                                  const ArrayView& target) {
  std::vector<RangeRead> requests;
  HF_RETURN_IF_ERROR(ForEachRawSpan(plan, [&](const RawSpan& span) -> Status {
    char* data = Subview(target, span.box_in_target).data;
    requests.push_back(object.Request(
        span.offset, {data, static_cast<size_t>(plan.span_bytes)}));
    if (requests.size() < kBatchRequests) return Status();
    return ReadBatch(object, requests);
  }));
  return ReadBatch(object, requests);
}

Status ChunkReader::ReadRawJoined(const Located& object, const RawPlan& plan,
                                  const ArrayView& target) {
  const size_t span_bytes = static_cast<size_t>(plan.span_bytes);
  const size_t batch_spans =
      std::clamp<size_t>(kBatchBytes / span_bytes, 1, kBatchRequests);
  Buffer scratch = Buffer::TryAllocate(batch_spans * span_bytes);
  if (scratch.data() == nullptr) return NoMemory(batch_spans * span_bytes);
  char* const base = scratch.data();
  std::vector<RangeRead> requests;
  std::vector<Box> boxes;
  const auto flush = [&]() -> Status {
    HF_RETURN_IF_ERROR(ReadBatch(object, requests));
    for (size_t i = 0; i < boxes.size(); ++i) {
      const ConstArrayView source = {target.dtype, base + i * span_bytes,
                                     boxes[i].shape, plan.strides};
      CopyStrided(source, Subview(target, boxes[i]));
    }
    boxes.clear();
    return Status();
  };
  HF_RETURN_IF_ERROR(ForEachRawSpan(plan, [&](const RawSpan& span) -> Status {
    char* data = base + boxes.size() * span_bytes;
    requests.push_back(object.Request(span.offset, {data, span_bytes}));
    boxes.push_back(span.box_in_target);
    return boxes.size() < batch_spans ? Status() : flush();
  }));
  return flush();
}

// This is checked because reads of ranges would not notice a chunk of the wrong
// size.
Status CheckRawBytes(uint64_t stored_bytes, uint64_t chunk_bytes) {
  if (stored_bytes == chunk_bytes) return Status();
  if (stored_bytes > chunk_bytes) {
    return DataLossError("End of data expected; remaining length: " +
                         std::to_string(stored_bytes - chunk_bytes) +
                         "; at byte " + std::to_string(chunk_bytes));
  }
  return DataLossError("Not enough data: expected at least " +
                       std::to_string(chunk_bytes) + " or " +
                       std::to_string(chunk_bytes - stored_bytes) +
                       " more; at byte " + std::to_string(stored_bytes));
}

Status ChunkReader::ReadRaw(const Located& object, const Box& box,
                            const ArrayView& target) {
  const Shape& chunk_shape = format_.metadata.chunk_shape;
  const size_t item_bytes = DTypeBytes(format_.metadata.dtype);
  const uint64_t chunk_bytes =
      static_cast<uint64_t>(ElementCount(chunk_shape)) * item_bytes;
  HF_RETURN_IF_ERROR(CheckRawBytes(object.byte_count, chunk_bytes));
  RawSpanOptions options;
  if (object.is_remote()) {
    options.gap_bytes_max = kRemoteGapBytesMax;
    options.direct_bytes_min = kRemoteDirectBytesMin;
  }
  const RawPlan plan =
      PlanRawSpans(chunk_shape, item_bytes, box, target.strides, options);
  return plan.direct ? ReadRawDirect(object, plan, target)
                     : ReadRawJoined(object, plan, target);
}

Result<ShardIndex> ChunkReader::ReadIndex(const Located& object) const {
  const uint64_t index_bytes = format_.shard->index_bytes();
  HF_RETURN_IF_ERROR(CheckShardBytes(object.byte_count, index_bytes));
  const uint64_t at = format_.shard->IndexOffset(object.byte_count);
  HF_ASSIGN_OR_RETURN(
      Bytes encoded,
      object.store->Read(object.key, {object.offset + at, index_bytes}));
  return format_.shard->DecodeIndex(std::move(encoded));
}

bool ChunkReader::ReadsDirectly(const PieceRange& range,
                                const ArrayView& target) const {
  const ShardCodec& shard = *format_.shard;
  if (!shard.inner_is_raw() || range.entry.byte_count != shard.inner_bytes() ||
      shard.inner_bytes() < kDirectInnerBytesMin) {
    return false;
  }
  const ArrayView part = Subview(target, range.piece->box_in_target);
  const uint64_t part_bytes =
      static_cast<uint64_t>(ElementCount(part.shape)) * DTypeBytes(part.dtype);
  return part_bytes == shard.inner_bytes() && IsContiguous(part);
}

Status ChunkReader::ReadDirectPieces(const Located& object,
                                     const std::vector<PieceRange>& ranges,
                                     const ArrayView& target) {
  std::vector<RangeRead> requests;
  for (const PieceRange& range : ranges) {
    char* data = Subview(target, range.piece->box_in_target).data;
    requests.push_back(
        object.Request(range.entry.offset, {data, range.entry.byte_count}));
  }
  return ReadBatch(object, requests);
}

Status ChunkReader::ReadGroups(const Located& object,
                               std::vector<Group>& groups,
                               const ArrayView& target) {
  std::vector<RangeRead> requests;
  for (Group& group : groups) {
    const uint64_t byte_count = group.end - group.offset;
    group.bytes = Buffer::TryAllocate(byte_count);
    if (group.bytes.data() == nullptr && byte_count > 0) {
      return NoMemory(byte_count);
    }
    requests.push_back(
        object.Request(group.offset, {group.bytes.data(), byte_count}));
  }
  HF_RETURN_IF_ERROR(ReadBatch(object, requests));
  for (const Group& group : groups) {
    for (const PieceRange& range : group.ranges) {
      const std::string_view encoded = group.bytes.view().substr(
          range.entry.offset - group.offset, range.entry.byte_count);
      HF_RETURN_IF_ERROR(
          format_.shard->DecodePiece(*range.piece, encoded, target, context_));
    }
  }
  groups.clear();
  return Status();
}

// Reads inner chunks with small gaps together. REQUIRES: `ranges` are sorted by
// offset; they may overlap.
Status ChunkReader::ReadJoinedPieces(const Located& object,
                                     std::span<const PieceRange> ranges,
                                     const ArrayView& target) {
  const uint64_t gap_bytes_max =
      object.is_remote() ? kRemoteGapBytesMax : kInnerGapBytesMax;
  std::vector<Group> groups;
  uint64_t batch_bytes = 0;
  while (!ranges.empty()) {
    uint64_t end = 0;
    size_t count = 0;
    const uint64_t offset = ranges[0].entry.offset;
    while (count < ranges.size()) {
      const ShardEntry& next = ranges[count].entry;
      const uint64_t next_end = std::max(end, next.offset + next.byte_count);
      if (count > 0 && (next.offset > end + gap_bytes_max ||
                        next_end - offset > kBatchBytes)) {
        break;
      }
      end = next_end;
      ++count;
    }
    if (batch_bytes + (end - offset) > kBatchBytes ||
        groups.size() == kBatchRequests) {
      HF_RETURN_IF_ERROR(ReadGroups(object, groups, target));
      batch_bytes = 0;
    }
    groups.push_back({offset, end, ranges.first(count), Buffer()});
    batch_bytes += end - offset;
    ranges = ranges.subspan(count);
  }
  return ReadGroups(object, groups, target);
}

Status ChunkReader::ReadShard(const Located& object,
                              const std::vector<InnerPiece>& pieces,
                              const ArrayView& target) {
  const ArrayView encoded_target = format_.shard->InEncodedFrame(target);
  HF_ASSIGN_OR_RETURN(const ShardIndex index, ReadIndex(object));
  std::vector<PieceRange> direct;
  std::vector<PieceRange> joined;
  for (const InnerPiece& piece : pieces) {
    // Entry checks that the inner chunk is inside the shard, so that no sum of
    // its offset and size overflows below.
    const Result<ShardEntry> entry =
        index.Entry(piece.number, object.byte_count);
    if (!entry.ok()) return format_.shard->AtPiece(piece, entry.status());
    // The index shows that the inner chunk is not stored, so no request is
    // needed.
    if (entry->missing()) {
      HF_RETURN_IF_ERROR(format_.shard->MissingPiece(piece, encoded_target));
      continue;
    }
    const PieceRange range = {&piece, *entry};
    (ReadsDirectly(range, encoded_target) ? direct : joined).push_back(range);
  }
  std::stable_sort(joined.begin(), joined.end(),
                   [](const PieceRange& a, const PieceRange& b) {
                     return a.entry.offset < b.entry.offset;
                   });
  HF_RETURN_IF_ERROR(ReadDirectPieces(object, direct, encoded_target));
  return ReadJoinedPieces(object, joined, encoded_target);
}

Status ChunkReader::Read(const Box& box, const ArrayView& target) {
  std::vector<InnerPiece> pieces;
  if (format_.shard != nullptr) {
    pieces = format_.shard->Pieces(box.origin, box.shape);
    if (!WantsRanges(pieces)) return AtKey(ReadWhole(box, target));
  } else if (!format_.is_raw) {
    return AtKey(ReadWhole(box, target));
  }
  const Result<ObjectLocation> location = store_.Locate(key_);
  if (!location.ok()) return AtKey(location.status());
  // A small value is in a node of the database, which is already in memory.
  if (location->inline_value) {
    return AtKey(DecodeWhole(location->inline_value->view(), box, target));
  }
  const Result<Located> object = Sized(*location);
  if (!object.ok()) return AtKey(object.status());
  if (format_.shard == nullptr) return AtKey(ReadRaw(*object, box, target));
  return AtKey(ReadShard(*object, pieces, target));
}

}  // namespace

Result<ChunkFormat> MakeChunkFormat(const ArrayMetadata& metadata,
                                    const ChunkCodecOptions& options) {
  ChunkFormat format;
  format.metadata = metadata;
  format.options = options;
  HF_ASSIGN_OR_RETURN(format.codec, MakeChunkCodec(metadata, options));
  if (metadata.sharding) {
    format.shard = static_cast<const ShardCodec*>(format.codec.get());
  }
  // Bools and sub-byte elements must be decoded, which checks or cleans them.
  const bool is_plain =
      !metadata.sharding && metadata.endian == Endian::kLittle &&
      IsIdentity(ChunkPermutation(metadata)) &&
      DTypeBits(metadata.dtype) >= 8 && metadata.dtype != DType::kBool;
  const std::vector<BytesCodecParams>& codecs = metadata.bytes_codecs;
  format.is_raw = is_plain && codecs.empty();
  format.is_blosc = format.shard != nullptr
                        ? format.shard->is_one_blosc_container()
                        : is_plain && codecs.size() == 1 &&
                              std::holds_alternative<BloscParams>(codecs[0]);
  return format;
}

Result<std::string_view> BloscContainerIn(const ChunkFormat& format,
                                          std::string_view stored) {
  assert(format.is_blosc);
  if (format.shard != nullptr) return format.shard->OnlyInner(stored);
  return stored;
}

Status ReadChunkBox(Store& store, std::string_view key,
                    const ChunkFormat& format, const Box& box,
                    const ArrayView& target, CodecContext& context,
                    const CancelToken* cancel) {
  assert(!IsEmpty(box) && target.shape == box.shape);
  assert(target.dtype == format.metadata.dtype);
  if (cancel != nullptr) HF_RETURN_IF_ERROR(cancel->Check());
  return ChunkReader(store, key, format, context, cancel).Read(box, target);
}

}  // namespace holdfast::zarr
