// ShardCodec: sharding_indexed as a ChunkCodec, and the parts of it that a
// reader of byte ranges needs (doc/zarr.md, Sharding).
//
// A shard holds its inner chunks in C order of their grid, without gaps, and an
// index at its end or start. Left out are inner chunks wholly outside the array
// and, unless told otherwise, those equal to the fill value. Encode of a shard
// with nothing to store gives no bytes at all: such a shard is not stored.
//
// Thread-safety and ownership: as ChunkCodec.
// Units: bytes, and elements in one of two frames: the array's own dimension
// order, or "encoded", after the transposes that precede sharding_indexed.
// Errors: DataLoss for a damaged shard; NotFound for an inner chunk that is not
// stored, under MissingChunks::kRefuse. Messages about one inner chunk begin
// `shard entry {1}/{2}`: its index and the grid.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/zarr/chunk_codec.h"
#include "formats/zarr/format/shard_index.h"
#include "ground/tensor/box.h"

namespace holdfast::zarr {

// One inner chunk that a read touches; boxes in the encoded frame.
struct InnerPiece {
  uint64_t number = 0;  // in C order of the shard's grid
  Shape cell;           // its index in that grid
  Box box_in_inner;
  Box box_in_target;
};

class ShardCodec : public ChunkCodec {
 public:
  // REQUIRES: metadata.sharding, and CheckMetadata(metadata) passed.
  static Result<std::shared_ptr<const ShardCodec>> Make(
      const ArrayMetadata& metadata, const ChunkCodecOptions& options);

  Result<EncodedChunk> Encode(const ConstArrayView& chunk,
                              CodecContext& context) const override;
  Status Decode(std::string_view encoded, const Shape& origin,
                const ArrayView& target, CodecContext& context) const override;
  // Shards with their index at the end, as Orbax writes. In pieces only those
  // of one inner chunk are decoded; for the others there is ReadChunkBox.
  bool is_streamable() const override;
  Status EncodeStream(const ChunkElements& chunk, size_t piece_bytes,
                      const WriteFn& write,
                      CodecContext& context) const override;
  Result<bool> DecodeStream(EncodedSource& encoded, size_t piece_bytes,
                            const DecodedTarget& target,
                            CodecContext& context) const override;

  uint64_t entry_count() const { return entry_count_; }
  uint64_t index_bytes() const { return index_bytes_; }
  // Offset of the index in a shard. REQUIRES: shard_bytes >= index_bytes().
  uint64_t IndexOffset(uint64_t shard_bytes) const;
  Result<ShardIndex> DecodeIndex(Bytes encoded) const;
  uint64_t inner_bytes() const { return inner_bytes_; }
  // An inner chunk's stored bytes are its elements as in memory.
  bool inner_is_raw() const { return inner_is_raw_; }
  // A view in the encoded frame.
  ArrayView InEncodedFrame(const ArrayView& target) const;
  // The inner chunks of the box at `origin` of this shape (array's frame), in
  // C order.
  std::vector<InnerPiece> Pieces(const Shape& origin, const Shape& shape) const;
  // Decodes one piece; `target` is the whole target in the encoded frame.
  Status DecodePiece(const InnerPiece& piece, std::string_view encoded,
                     const ArrayView& target, CodecContext& context) const;
  // Fills one piece that is not stored, or refuses.
  Status MissingPiece(const InnerPiece& piece, const ArrayView& target) const;
  // `status` with `shard entry {1}/{2}` in front.
  Status AtPiece(const InnerPiece& piece, const Status& status) const;

 private:
  struct Params {
    DType dtype;
    std::vector<int> permutation;  // encoded dimension i is array's [i]
    Shape grid;                    // inner chunks along each dimension
    std::string fill_element;
    ShardingParams sharding;
    ChunkCodecOptions options;
  };
  struct EncodedInner;

  ShardCodec(Params params, std::shared_ptr<const ChunkCodec> inner);

  bool Elided(const ConstArrayView& part) const;
  Result<std::vector<EncodedInner>> EncodeInner(const ConstArrayView& view,
                                                CodecContext& context) const;
  Result<EncodedChunk> Join(std::vector<EncodedInner> inner) const;
  Status EncodeInnerStream(const ChunkElements& inner, size_t piece_bytes,
                           const WriteFn& write, CodecContext& context) const;
  Status DecodeEntry(const InnerPiece& piece, const ShardIndex& index,
                     std::string_view shard, const ArrayView& target,
                     CodecContext& context) const;

  const Params params_;
  const std::shared_ptr<const ChunkCodec> inner_;
  const uint64_t entry_count_;
  const uint64_t index_bytes_;
  const uint64_t inner_bytes_;
  const bool inner_is_raw_;
};

}  // namespace holdfast::zarr
