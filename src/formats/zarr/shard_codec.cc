#include "formats/zarr/shard_codec.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <variant>

#include "formats/zarr/format/braces.h"
#include "ground/base/status_macros.h"
#include "ground/tensor/copy.h"
#include "ground/tensor/grid.h"

namespace holdfast::zarr {
namespace {

uint64_t Product(const Shape& shape) {
  uint64_t product = 1;
  for (int64_t extent : shape) product *= static_cast<uint64_t>(extent);
  return product;
}

// Returns the position of `cell` in C order of `grid`.
uint64_t NumberOf(const Shape& cell, const Shape& grid) {
  uint64_t number = 0;
  for (size_t i = 0; i < cell.size(); ++i) {
    number = number * static_cast<uint64_t>(grid[i]) +
             static_cast<uint64_t>(cell[i]);
  }
  return number;
}

Shape Minus(const Shape& a, const Shape& b) {
  Shape result(a.size());
  for (size_t i = 0; i < a.size(); ++i) result[i] = a[i] - b[i];
  return result;
}

template <typename View>
View PermuteView(View view, const std::vector<int>& permutation) {
  view.shape = Permute(view.shape, permutation);
  view.strides = Permute(view.strides, permutation);
  return view;
}

// Returns whether inner chunks, before their bytes->bytes codecs, are their
// elements as in memory.
bool AreInMemoryOrder(const ShardingParams& sharding, DType dtype) {
  return std::ranges::all_of(sharding.transposes, IsIdentity) &&
         sharding.endian == Endian::kLittle && DTypeBits(dtype) >= 8 &&
         dtype != DType::kBool;
}

bool Within(std::string_view piece, const Buffer& buffer) {
  const auto begin = reinterpret_cast<uintptr_t>(buffer.data());
  const auto at = reinterpret_cast<uintptr_t>(piece.data());
  return at >= begin && at - begin < buffer.size();
}

}  // namespace

struct ShardCodec::EncodedInner {
  uint64_t number;
  EncodedChunk chunk;
};

ShardCodec::ShardCodec(Params params, std::shared_ptr<const ChunkCodec> inner)
    : params_(std::move(params)),
      inner_(std::move(inner)),
      entry_count_(Product(params_.grid)),
      index_bytes_(ShardIndexBytes(params_.sharding, entry_count_)),
      inner_bytes_(Product(params_.sharding.chunk_shape) *
                   DTypeBytes(params_.dtype)),
      inner_is_raw_(params_.sharding.bytes_codecs.empty() &&
                    AreInMemoryOrder(params_.sharding, params_.dtype)) {}

Result<std::shared_ptr<const ShardCodec>> ShardCodec::Make(
    const ArrayMetadata& metadata, const ChunkCodecOptions& options) {
  assert(metadata.sharding);
  const ShardingParams& sharding = *metadata.sharding;
  PlainChainParams inner_params;
  inner_params.dtype = metadata.dtype;
  inner_params.chunk_shape = sharding.chunk_shape;
  inner_params.transposes = sharding.transposes;
  inner_params.endian = sharding.endian;
  inner_params.bytes_codecs =
      WithChecksums(sharding.bytes_codecs, metadata.zarr_format, options);
  inner_params.fill_element = metadata.fill_element;
  HF_ASSIGN_OR_RETURN(std::shared_ptr<const ChunkCodec> inner,
                      MakePlainChunkCodec(inner_params));
  Params params = {metadata.dtype, ChunkPermutation(metadata),
                   Shape(),        metadata.fill_element,
                   sharding,       options};
  params.grid = Permute(metadata.chunk_shape, params.permutation);
  for (size_t i = 0; i < params.grid.size(); ++i) {
    params.grid[i] /= sharding.chunk_shape[i];
  }
  return std::shared_ptr<const ShardCodec>(
      new ShardCodec(std::move(params), std::move(inner)));
}

uint64_t ShardCodec::IndexOffset(uint64_t shard_bytes) const {
  assert(shard_bytes >= index_bytes_);
  const bool at_start =
      params_.sharding.index_location == IndexLocation::kStart;
  return at_start ? 0 : shard_bytes - index_bytes_;
}

Result<ShardIndex> ShardCodec::DecodeIndex(Bytes encoded) const {
  return ShardIndex::Decode(std::move(encoded), params_.sharding, entry_count_);
}

ArrayView ShardCodec::InEncodedFrame(const ArrayView& target) const {
  return PermuteView(target, params_.permutation);
}

std::vector<InnerPiece> ShardCodec::Pieces(const Shape& origin,
                                           const Shape& shape) const {
  const Box box = {Permute(origin, params_.permutation),
                   Permute(shape, params_.permutation)};
  const Shape& inner_shape = params_.sharding.chunk_shape;
  Shape shard_shape(inner_shape.size());
  for (size_t i = 0; i < shard_shape.size(); ++i) {
    shard_shape[i] = inner_shape[i] * params_.grid[i];
  }
  const ChunkGrid grid = {shard_shape, inner_shape};
  std::vector<InnerPiece> pieces;
  const Status status =
      ForEachChunk(grid, box, [&](const Shape& cell) -> Status {
        const Box inner_box = grid.ChunkBox(cell);
        const Box common = *Intersect(inner_box, box);
        pieces.push_back(
            {NumberOf(cell, params_.grid),
             cell,
             {Minus(common.origin, inner_box.origin), common.shape},
             {Minus(common.origin, box.origin), common.shape}});
        return Status();
      });
  assert(status.ok());
  (void)status;
  return pieces;
}

Status ShardCodec::AtPiece(const InnerPiece& piece,
                           const Status& status) const {
  return status.WithContext("shard entry " + Braced(piece.cell) + "/" +
                            Braced(params_.grid));
}

Status ShardCodec::MissingPiece(const InnerPiece& piece,
                                const ArrayView& target) const {
  if (params_.options.missing == MissingChunks::kRefuse) {
    return AtPiece(piece, NotFoundError("inner chunk is not stored"));
  }
  FillStrided(Subview(target, piece.box_in_target),
              params_.fill_element.data());
  return Status();
}

Status ShardCodec::DecodePiece(const InnerPiece& piece,
                               std::string_view encoded,
                               const ArrayView& target,
                               CodecContext& context) const {
  const Status status =
      inner_->Decode(encoded, piece.box_in_inner.origin,
                     Subview(target, piece.box_in_target), context);
  return status.ok() ? status : AtPiece(piece, status);
}

Status ShardCodec::DecodeEntry(const InnerPiece& piece, const ShardIndex& index,
                               std::string_view shard, const ArrayView& target,
                               CodecContext& context) const {
  const Result<ShardEntry> entry = index.Entry(piece.number, shard.size());
  if (!entry.ok()) return AtPiece(piece, entry.status());
  if (entry->missing()) return MissingPiece(piece, target);
  return DecodePiece(piece, shard.substr(entry->offset, entry->byte_count),
                     target, context);
}

Status ShardCodec::Decode(std::string_view encoded, const Shape& origin,
                          const ArrayView& target,
                          CodecContext& context) const {
  HF_RETURN_IF_ERROR(CheckShardBytes(encoded.size(), index_bytes_));
  const Bytes index_view(
      nullptr, encoded.substr(IndexOffset(encoded.size()), index_bytes_));
  HF_ASSIGN_OR_RETURN(const ShardIndex index, DecodeIndex(index_view));
  const ArrayView encoded_target = InEncodedFrame(target);
  for (const InnerPiece& piece : Pieces(origin, target.shape)) {
    HF_RETURN_IF_ERROR(
        DecodeEntry(piece, index, encoded, encoded_target, context));
  }
  return Status();
}

bool ShardCodec::is_one_blosc_container() const {
  const std::vector<BytesCodecParams>& codecs = params_.sharding.bytes_codecs;
  return entry_count_ == 1 && codecs.size() == 1 &&
         std::holds_alternative<BloscParams>(codecs.front()) &&
         IsIdentity(params_.permutation) &&
         AreInMemoryOrder(params_.sharding, params_.dtype);
}

Result<std::string_view> ShardCodec::OnlyInner(std::string_view shard) const {
  assert(entry_count_ == 1);
  HF_RETURN_IF_ERROR(CheckShardBytes(shard.size(), index_bytes_));
  const Bytes index_view(nullptr,
                         shard.substr(IndexOffset(shard.size()), index_bytes_));
  HF_ASSIGN_OR_RETURN(const ShardIndex index, DecodeIndex(index_view));
  HF_ASSIGN_OR_RETURN(const ShardEntry entry, index.Entry(0, shard.size()));
  if (entry.missing()) return NotFoundError("the inner chunk is not stored");
  return shard.substr(entry.offset, entry.byte_count);
}

bool ShardCodec::Elided(const ConstArrayView& part) const {
  return !params_.options.store_data_equal_to_fill_value &&
         AllEqual(part, params_.fill_element.data());
}

// Returns the inner chunks to store, in C order. `view` is the part of the
// shard inside the array, in the encoded frame. Inner chunks that `view` does
// not touch are outside the array.
Result<std::vector<ShardCodec::EncodedInner>> ShardCodec::EncodeInner(
    const ConstArrayView& view, CodecContext& context) const {
  const ChunkGrid grid = {view.shape, params_.sharding.chunk_shape};
  std::vector<EncodedInner> stored;
  HF_RETURN_IF_ERROR(
      ForEachChunk(grid, BoxOf(view.shape), [&](const Shape& cell) -> Status {
        const ConstArrayView part = Subview(view, grid.ChunkBox(cell));
        if (Elided(part)) return Status();
        HF_ASSIGN_OR_RETURN(EncodedChunk chunk, inner_->Encode(part, context));
        stored.push_back({NumberOf(cell, params_.grid), std::move(chunk)});
        return Status();
      }));
  return stored;
}

Result<EncodedChunk> ShardCodec::Join(std::vector<EncodedInner> inner) const {
  const bool at_start =
      params_.sharding.index_location == IndexLocation::kStart;
  std::vector<ShardEntry> entries(entry_count_);
  uint64_t offset = at_start ? index_bytes_ : 0;
  size_t copied_bytes = index_bytes_;
  for (const EncodedInner& item : inner) {
    // Entries of omitted inner chunks stay "missing".
    entries[item.number] = {offset, item.chunk.byte_count};
    offset += item.chunk.byte_count;
    for (std::string_view piece : item.chunk.pieces) {
      if (Within(piece, item.chunk.storage)) copied_bytes += piece.size();
    }
  }
  EncodedChunk shard;
  shard.storage = Buffer::TryAllocate(copied_bytes);
  if (shard.storage.data() == nullptr) {
    return ResourceExhaustedError("no memory for a shard of " +
                                  std::to_string(copied_bytes) + " bytes");
  }
  // The index is always first in memory; the order of `pieces` decides where it
  // is stored.
  EncodeShardIndex(entries, params_.sharding, shard.storage.data());
  const std::string_view index(shard.storage.data(), index_bytes_);
  char* end = shard.storage.data() + index_bytes_;
  if (at_start) shard.pieces.push_back(index);
  for (const EncodedInner& item : inner) {
    // Memory of the caller's array is passed on without a copy. Only the
    // codec's own memory is copied, since it is freed with `inner`.
    for (std::string_view piece : item.chunk.pieces) {
      if (Within(piece, item.chunk.storage)) {
        std::memcpy(end, piece.data(), piece.size());
        piece = {end, piece.size()};
        end += piece.size();
      }
      shard.pieces.push_back(piece);
    }
  }
  if (!at_start) shard.pieces.push_back(index);
  shard.byte_count = at_start ? offset : offset + index_bytes_;
  return shard;
}

Result<EncodedChunk> ShardCodec::Encode(const ConstArrayView& chunk,
                                        CodecContext& context) const {
  HF_ASSIGN_OR_RETURN(
      std::vector<EncodedInner> inner,
      EncodeInner(PermuteView(chunk, params_.permutation), context));
  if (inner.empty()) return EncodedChunk();
  return Join(std::move(inner));
}

bool ShardCodec::is_streamable() const {
  return IsIdentity(params_.permutation) &&
         params_.sharding.index_location == IndexLocation::kEnd &&
         params_.options.store_data_equal_to_fill_value &&
         inner_->is_streamable();
}

namespace {

// Returns the elements of `chunk` at `box`.
ChunkElements PartOf(const ChunkElements& chunk, const Box& box) {
  ChunkElements part;
  part.dtype = chunk.dtype;
  part.shape = box.shape;
  if (chunk.view.data != nullptr) part.view = Subview(chunk.view, box);
  part.copy = [&chunk, box](const Box& within, const ArrayView& target) {
    return chunk.copy(Absolute(within, box.origin), target);
  };
  return part;
}

}  // namespace

// Encodes an inner chunk as a stream. One of at most a piece is gathered in
// memory and encoded at once.
Status ShardCodec::EncodeInnerStream(const ChunkElements& inner,
                                     size_t piece_bytes, const WriteFn& write,
                                     CodecContext& context) const {
  if (entry_count_ == 1 || inner_bytes_ > piece_bytes) {
    return inner_->EncodeStream(inner, piece_bytes, write, context);
  }
  ConstArrayView view = inner.view;
  Buffer scratch;
  if (view.data == nullptr) {
    scratch = Buffer(inner_bytes_);
    const ArrayView gathered{
        inner.dtype, scratch.data(), inner.shape,
        ContiguousStrides(inner.shape, DTypeBytes(inner.dtype))};
    HF_RETURN_IF_ERROR(inner.copy(BoxOf(inner.shape), gathered));
    view = gathered;
  }
  HF_ASSIGN_OR_RETURN(const EncodedChunk encoded,
                      inner_->Encode(view, context));
  return write(encoded.pieces);
}

Status ShardCodec::EncodeStream(const ChunkElements& chunk, size_t piece_bytes,
                                const WriteFn& write,
                                CodecContext& context) const {
  assert(is_streamable());
  std::vector<ShardEntry> entries(entry_count_);
  uint64_t byte_count = 0;
  const WriteFn counting = [&](std::span<const std::string_view> pieces) {
    for (const std::string_view piece : pieces) byte_count += piece.size();
    return write(pieces);
  };
  const ChunkGrid grid = {chunk.shape, params_.sharding.chunk_shape};
  HF_RETURN_IF_ERROR(
      ForEachChunk(grid, BoxOf(chunk.shape), [&](const Shape& cell) -> Status {
        // Places count from 0, since the index of a streamable shard is at the
        // end.
        const uint64_t start = byte_count;
        HF_RETURN_IF_ERROR(EncodeInnerStream(PartOf(chunk, grid.ChunkBox(cell)),
                                             piece_bytes, counting, context));
        entries[NumberOf(cell, params_.grid)] = {start, byte_count - start};
        return Status();
      }));
  std::string index(index_bytes_, '\0');
  EncodeShardIndex(entries, params_.sharding, index.data());
  const std::string_view piece = index;
  return write({&piece, 1});
}

Result<bool> ShardCodec::DecodeStream(EncodedSource& encoded,
                                      size_t piece_bytes,
                                      const DecodedTarget& target,
                                      CodecContext& context) const {
  assert(is_streamable());
  // A shard with several inner chunks cannot be decoded piece by piece, so
  // Decode must be used.
  if (entry_count_ > 1) return false;
  const uint64_t shard_bytes = encoded.byte_count();
  HF_RETURN_IF_ERROR(CheckShardBytes(shard_bytes, index_bytes_));
  Buffer stored(index_bytes_);
  HF_RETURN_IF_ERROR(
      encoded.ReadAt(IndexOffset(shard_bytes), {stored.data(), index_bytes_}));
  HF_ASSIGN_OR_RETURN(const ShardIndex index,
                      DecodeIndex(Bytes(std::move(stored), index_bytes_)));
  InnerPiece piece;
  piece.cell = Shape(params_.grid.size(), 0);
  const Result<ShardEntry> entry = index.Entry(0, shard_bytes);
  if (!entry.ok()) return AtPiece(piece, entry.status());
  // Decode fills or refuses a missing inner chunk, depending on the options.
  if (entry->missing()) return false;
  EncodedPart inner(encoded, entry->offset, entry->byte_count);
  Result<bool> decoded =
      inner_->DecodeStream(inner, piece_bytes, target, context);
  if (!decoded.ok()) return AtPiece(piece, decoded.status());
  return decoded;
}

}  // namespace holdfast::zarr
