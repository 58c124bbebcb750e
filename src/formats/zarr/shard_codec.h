// ShardCodec: sharding_indexed as a ChunkCodec, and its parts that a reader of
// byte ranges needs (doc/zarr.md, Sharding).
//
// A shard holds its inner chunks in C order of their grid, without gaps, and an
// index at its end or start. It omits inner chunks that are completely outside
// the array and, depending on the options, those that equal the fill value. If
// nothing is left to store, Encode returns no bytes at all, and the shard is
// not stored.
//
// Thread-safety and ownership: as ChunkCodec.
// Units: bytes, and elements in one of two frames: the array's own dimension
// order, or "encoded", after the transposes that precede sharding_indexed.
// Errors: DataLoss for a damaged shard; NotFound, under MissingChunks::kRefuse,
// for an inner chunk that is not stored. Messages about one inner chunk begin
// with `shard entry {1}/{2}`: its index and the grid.
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
  // Returns true for shards with their index at the end, as Orbax writes them.
  // Only shards with one inner chunk are decoded in pieces; use ReadChunkBox
  // for the others.
  bool is_streamable() const override;
  Status EncodeStream(const ChunkElements& chunk, size_t piece_bytes,
                      const WriteFn& write,
                      CodecContext& context) const override;
  Result<bool> DecodeStream(EncodedSource& encoded, size_t piece_bytes,
                            const DecodedTarget& target,
                            CodecContext& context) const override;

  uint64_t entry_count() const { return entry_count_; }
  uint64_t index_bytes() const { return index_bytes_; }
  // Returns the offset of the index in a shard. REQUIRES: shard_bytes >=
  // index_bytes().
  uint64_t IndexOffset(uint64_t shard_bytes) const;
  Result<ShardIndex> DecodeIndex(Bytes encoded) const;
  uint64_t inner_bytes() const { return inner_bytes_; }
  // True if an inner chunk's stored bytes are its elements as in memory.
  bool inner_is_raw() const { return inner_is_raw_; }
  // True if there is one inner chunk, whose stored bytes are a blosc container
  // of its elements as in memory.
  bool is_one_blosc_container() const;
  // Returns the stored bytes of the only inner chunk. REQUIRES: entry_count()
  // is 1.
  Result<std::string_view> OnlyInner(std::string_view shard) const;
  // Returns the target as a view in the encoded frame.
  ArrayView InEncodedFrame(const ArrayView& target) const;
  // Returns the inner chunks that a box touches, in C order. `origin` and
  // `shape` of the box are in the array's frame.
  std::vector<InnerPiece> Pieces(const Shape& origin, const Shape& shape) const;
  // Decodes one piece; `target` is the complete target in the encoded frame.
  Status DecodePiece(const InnerPiece& piece, std::string_view encoded,
                     const ArrayView& target, CodecContext& context) const;
  // Fills a piece that is not stored with the fill value, or refuses it.
  Status MissingPiece(const InnerPiece& piece, const ArrayView& target) const;
  // Returns `status` prefixed with `shard entry {1}/{2}`.
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
