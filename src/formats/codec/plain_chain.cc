// The plain chunk codec: transposes, `bytes`, bytes->bytes codecs.
//
// A transpose does not move elements: encoding and decoding see the array
// through permuted strides. If elements are copied into the packed chunk or out
// of it, that copy does the transposing. Often no copy is made.

#include <algorithm>
#include <cassert>
#include <cstring>
#include <numeric>
#include <utility>

#include "formats/codec/bytes_chain.h"
#include "formats/codec/codec.h"
#include "formats/codec/codec_context.h"
#include "formats/codec/crc32c_codec.h"
#include "formats/codec/size_error.h"
#include "formats/codec/zstd_codec.h"
#include "formats/codec/zstd_frame.h"
#include "ground/base/status_macros.h"
#include "ground/tensor/box.h"
#include "ground/tensor/copy.h"
#include "ground/tensor/grid.h"

namespace holdfast {
namespace {

Status CheckPermutation(const std::vector<int>& order, size_t rank) {
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int> want(rank);
  std::iota(want.begin(), want.end(), 0);
  if (sorted == want) return Status();
  std::string text;
  for (int dimension : order) text += " " + std::to_string(dimension);
  return InvalidArgumentError("transpose order: not a permutation of " +
                              std::to_string(rank) + " dimensions (got" + text +
                              ")");
}

// Returns all transposes as one permutation: encoded dimension i is decoded
// dimension result[i].
Result<std::vector<int>> ComposeTransposes(
    const std::vector<std::vector<int>>& transposes, size_t rank) {
  std::vector<int> composed(rank);
  std::iota(composed.begin(), composed.end(), 0);
  for (const std::vector<int>& order : transposes) {
    HF_RETURN_IF_ERROR(CheckPermutation(order, rank));
    std::vector<int> next(rank);
    for (size_t i = 0; i < rank; ++i) next[i] = composed[order[i]];
    composed = std::move(next);
  }
  return composed;
}

Shape Permute(const Shape& values, const std::vector<int>& order) {
  Shape permuted(order.size());
  for (size_t i = 0; i < order.size(); ++i) permuted[i] = values[order[i]];
  return permuted;
}

template <typename View>
View PermuteView(View view, const std::vector<int>& order) {
  view.shape = Permute(view.shape, order);
  view.strides = Permute(view.strides, order);
  return view;
}

// Returns the product of the extents and the item size, checked to be below
// 2^63.
Result<size_t> CheckedChunkBytes(const Shape& shape, size_t item_bytes) {
  if (shape.size() > kRankMax) {
    return InvalidArgumentError("chunk shape: rank too large (got " +
                                std::to_string(shape.size()) + ", want " +
                                std::to_string(kRankMax) + ")");
  }
  int64_t byte_count = static_cast<int64_t>(item_bytes);
  for (int64_t extent : shape) {
    if (extent < 1) {
      return InvalidArgumentError("chunk shape: extent below 1: " +
                                  ShapeToString(shape));
    }
    if (__builtin_mul_overflow(byte_count, extent, &byte_count)) {
      return InvalidArgumentError("chunk shape: product too large: " +
                                  ShapeToString(shape));
    }
  }
  return static_cast<size_t>(byte_count);
}

// Returns the element in the byte order of an encoded chunk.
std::string SwapElement(DType dtype, const std::string& element) {
  std::string swapped(element.size(), '\0');
  CopyByteSwapped(ConstArrayView{dtype, element.data(), {}, {}},
                  ArrayView{dtype, swapped.data(), {}, {}});
  return swapped;
}

// Returns true for types whose bytes are reversed between memory and a
// big-endian chunk.
bool HasByteOrder(DType dtype) {
  const size_t parts = DTypeKindOf(dtype) == DTypeKind::kComplex ? 2 : 1;
  return DTypeBytes(dtype) / parts > 1;
}

class PlainChunkCodec : public ChunkCodec {
 public:
  PlainChunkCodec(const PlainChainParams& params, std::vector<int> order,
                  size_t chunk_bytes, BytesCodecs codecs)
      : dtype_(params.dtype),
        chunk_shape_(params.chunk_shape),
        order_(std::move(order)),
        encoded_shape_(Permute(params.chunk_shape, order_)),
        encoded_strides_(ContiguousStrides(encoded_shape_, DTypeBytes(dtype_))),
        swap_(params.endian == Endian::kBig && HasByteOrder(dtype_)),
        chunk_bytes_(chunk_bytes),
        fill_element_(swap_ ? SwapElement(dtype_, params.fill_element)
                            : params.fill_element),
        codecs_(std::move(codecs)) {
    // crc32c codecs at the end only append bytes to the others' output, so they
    // need no separate pass (AppendCrc32cPiece).
    while (crc_count_ < codecs_.size() &&
           DecodesInPlace({&codecs_[codecs_.size() - crc_count_ - 1], 1})) {
      ++crc_count_;
    }
  }

  Result<EncodedChunk> Encode(const ConstArrayView& chunk,
                              CodecContext& context) const override;
  Status Decode(std::string_view encoded, const Shape& origin,
                const ArrayView& target, CodecContext& context) const override;
  bool is_streamable() const override;
  Status EncodeStream(const ChunkElements& chunk, size_t piece_bytes,
                      const WriteFn& write,
                      CodecContext& context) const override;
  Result<bool> DecodeStream(EncodedSource& encoded, size_t piece_bytes,
                            const DecodedTarget& target,
                            CodecContext& context) const override;

 private:
  class PieceReader;
  class PieceSink;

  static constexpr size_t kDigestBytes = Crc32cCodec::kDigestBytes;

  bool IsPacked(const ConstArrayView& encoded_view) const {
    return !swap_ && encoded_view.shape == encoded_shape_ &&
           IsContiguous(encoded_view);
  }
  // Returns true if the elements in place are the chunk's bytes. A bool must be
  // 0 or 1, because TensorStore reads nothing else. No bit above a sub-byte
  // element may be set.
  bool IsEncodedInPlace(const ConstArrayView& encoded_view) const {
    return IsPacked(encoded_view) &&
           !HasUnusedBits(dtype_, {encoded_view.data, chunk_bytes_});
  }
  // Returns all codecs except the crc32c codecs at the end, which only add a
  // piece each.
  BytesCodecSpan compressors() const {
    return BytesCodecSpan(codecs_).first(codecs_.size() - crc_count_);
  }
  size_t spare_bytes() const { return crc_count_ * kDigestBytes; }

  DecodedRange WantedRange(const Shape& origin, const Shape& shape) const;
  void Pack(const ConstArrayView& encoded_view, char* target) const;
  Result<EncodedChunk> EncodeView(const ConstArrayView& encoded_view,
                                  CodecContext& context) const;
  Result<EncodedChunk> Compress(std::string_view elements, bool may_borrow,
                                CodecContext& context) const;
  void FinishElements(std::span<char> elements) const;
  const ZstdCodec* OnlyZstd() const;
  Status DecodeRawStream(EncodedSource& encoded, size_t piece_bytes,
                         DecodedSink& sink, CodecContext& context) const;
  void CopyPart(const char* elements, const Shape& encoded_origin,
                const ArrayView& encoded_target) const;

  DType dtype_;
  Shape chunk_shape_;
  std::vector<int> order_;
  Shape encoded_shape_;
  Shape encoded_strides_;  // bytes
  bool swap_;
  size_t chunk_bytes_;
  std::string fill_element_;  // in the chunk's byte order
  BytesCodecs codecs_;
  size_t crc_count_ = 0;  // the number of crc32c codecs at the end
};

// Writes the chunk_bytes_ bytes of one chunk, including padding.
void PlainChunkCodec::Pack(const ConstArrayView& encoded_view,
                           char* target) const {
  const ArrayView whole{dtype_, target, encoded_shape_, encoded_strides_};
  const bool is_edge = encoded_view.shape != encoded_shape_;
  // Padding is written too, so that equal elements give equal bytes.
  if (is_edge) FillStrided(whole, fill_element_.data());
  const ArrayView part{dtype_, target, encoded_view.shape, encoded_strides_};
  swap_ ? CopyByteSwapped(encoded_view, part) : CopyStrided(encoded_view, part);
  FinishElements({target, chunk_bytes_});
}

// Returns null unless zstd is the only compressor.
const ZstdCodec* PlainChunkCodec::OnlyZstd() const {
  return compressors().size() == 1
             ? dynamic_cast<const ZstdCodec*>(compressors()[0].get())
             : nullptr;
}

// If `may_borrow`, the elements outlive the result, which may point at them.
Result<EncodedChunk> PlainChunkCodec::Compress(std::string_view elements,
                                               bool may_borrow,
                                               CodecContext& context) const {
  const ZstdCodec* const zstd = OnlyZstd();
  // A stored frame points at the elements instead of copying them, so they must
  // stay.
  if (!may_borrow || zstd == nullptr) {
    return EncodeBytesChain(compressors(), elements, spare_bytes(), context);
  }
  const auto& params = zstd->params();
  const ZstdStrategy strategy =
      ChooseZstdStrategy(elements, params.level, context);
  if (strategy == ZstdStrategy::kStored) {
    return StoredZstdFramePieces(elements, params.checksum, spare_bytes());
  }
  EncodedChunk chunk;
  const size_t bytes_max = zstd->EncodedBytesMax(elements.size());
  HF_RETURN_IF_ERROR(ReserveOrFail(bytes_max + spare_bytes(), chunk.storage));
  HF_ASSIGN_OR_RETURN(
      chunk.byte_count,
      zstd->EncodeWith(strategy, elements, {chunk.storage.data(), bytes_max},
                       context));
  chunk.pieces = {chunk.storage.view().substr(0, chunk.byte_count)};
  return chunk;
}

Result<EncodedChunk> PlainChunkCodec::EncodeView(
    const ConstArrayView& encoded_view, CodecContext& context) const {
  const bool packed = IsEncodedInPlace(encoded_view);
  if (!compressors().empty()) {
    Buffer& scratch = context.impl().elements;
    if (!packed) {
      HF_RETURN_IF_ERROR(ReserveOrFail(chunk_bytes_, scratch));
      Pack(encoded_view, scratch.data());
    }
    return Compress({packed ? encoded_view.data : scratch.data(), chunk_bytes_},
                    packed, context);
  }
  EncodedChunk chunk;
  chunk.byte_count = chunk_bytes_;
  HF_RETURN_IF_ERROR(ReserveOrFail((packed ? 0 : chunk_bytes_) + spare_bytes(),
                                   chunk.storage));
  if (!packed) Pack(encoded_view, chunk.storage.data());
  chunk.pieces.emplace_back(packed ? encoded_view.data : chunk.storage.data(),
                            chunk_bytes_);
  return chunk;
}

Result<EncodedChunk> PlainChunkCodec::Encode(const ConstArrayView& chunk,
                                             CodecContext& context) const {
  assert(chunk.dtype == dtype_ && chunk.shape.size() == order_.size());
  HF_ASSIGN_OR_RETURN(EncodedChunk encoded,
                      EncodeView(PermuteView(chunk, order_), context));
  for (size_t i = crc_count_; i > 0; --i) {
    AppendCrc32cPiece(encoded.storage.size() - i * kDigestBytes, encoded);
  }
  return encoded;
}

// Every decoded chunk passes through this function.
void PlainChunkCodec::FinishElements(std::span<char> elements) const {
  // Only a few dtypes, all of one byte per element, are changed.
  ClearUnusedBits(dtype_, elements.data(), elements.size());
}

// Copies the part of a decoded chunk that the target needs.
void PlainChunkCodec::CopyPart(const char* elements,
                               const Shape& encoded_origin,
                               const ArrayView& encoded_target) const {
  const ConstArrayView whole{dtype_, elements, encoded_shape_,
                             encoded_strides_};
  const ConstArrayView part =
      Subview(whole, Box{encoded_origin, encoded_target.shape});
  swap_ ? CopyByteSwapped(part, encoded_target)
        : CopyStrided(part, encoded_target);
}

Status PlainChunkCodec::Decode(std::string_view encoded, const Shape& origin,
                               const ArrayView& target,
                               CodecContext& context) const {
  assert(target.dtype == dtype_ && target.shape.size() == order_.size());
  const ArrayView encoded_target = PermuteView(target, order_);
  const Shape encoded_origin = Permute(origin, order_);
  // The target has the chunk's own layout, so decode straight into it.
  if (IsPacked(encoded_target)) {
    const std::span<char> elements(target.data, chunk_bytes_);
    HF_RETURN_IF_ERROR(DecodeBytesChain(codecs_, encoded, elements, context));
    FinishElements(elements);
    return Status();
  }
  if (compressors().empty()) {
    HF_ASSIGN_OR_RETURN(const std::string_view elements,
                        DecodeInPlace(codecs_, encoded, chunk_bytes_, context));
    // Elements with unused bits need a copy that may be changed, since
    // `encoded` is borrowed.
    if (!HasUnusedBits(dtype_, elements)) {
      CopyPart(elements.data(), encoded_origin, encoded_target);
      return Status();
    }
  }
  const DecodedRange wanted = WantedRange(encoded_origin, encoded_target.shape);
  HF_ASSIGN_OR_RETURN(const std::span<char> elements,
                      DecodeToScratch(codecs_, encoded, chunk_bytes_, wanted,
                                      context.impl().elements, context));
  FinishElements(elements.subspan(wanted.first, wanted.last - wanted.first));
  CopyPart(elements.data(), encoded_origin, encoded_target);
  return Status();
}

// Returns the range from the first wanted element to the last, in the chunk's
// order.
DecodedRange PlainChunkCodec::WantedRange(const Shape& origin,
                                          const Shape& shape) const {
  DecodedRange range{0, DTypeBytes(dtype_)};
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return {0, 0};
    range.first += origin[d] * encoded_strides_[d];
    range.last += (origin[d] + shape[d] - 1) * encoded_strides_[d];
  }
  return range;
}

bool PlainChunkCodec::is_streamable() const {
  return !swap_ && std::is_sorted(order_.begin(), order_.end()) &&
         crc_count_ == 0 && (codecs_.empty() || OnlyZstd() != nullptr);
}

// Reads the elements of a chunk as a stream, in place or assembled piece by
// piece with padding.
class PlainChunkCodec::PieceReader {
 public:
  PieceReader(const PlainChunkCodec& codec, const ChunkElements& chunk,
              size_t piece_bytes, CodecContext& context)
      : codec_(codec),
        chunk_(chunk),
        piece_bytes_(piece_bytes),
        scratch_(context.impl().elements),
        is_packed_(chunk.view.data != nullptr &&
                   codec.IsEncodedInPlace(chunk.view)),
        grid_(GridOf(piece_bytes)) {
    piece_count_ = is_packed_ ? 0 : grid_.ChunkCount();
  }

  bool is_packed() const { return is_packed_; }

  Status Reserve() {
    return is_packed_ ? Status() : ReserveOrFail(piece_bytes_, scratch_);
  }

  Result<std::string_view> Next() {
    if (is_packed_) return NextPacked();
    if (next_piece_ == piece_count_) return std::string_view();
    const Box box = grid_.ChunkBox(grid_.ChunkIndex(next_piece_++));
    return Gather(box, scratch_.data(), /*is_sample=*/false);
  }

  // Returns the bytes that decide the strategy: all of them, or runs from
  // several places.
  Result<std::string_view> Sample() {
    if (is_packed_) {
      return std::string_view(chunk_.view.data, codec_.chunk_bytes_);
    }
    constexpr int64_t kRunCount = 4;
    const ChunkGrid runs = GridOf(piece_bytes_ / kRunCount);
    const int64_t count = runs.ChunkCount();
    size_t byte_count = 0;
    for (int64_t i = 0; i < std::min(count, kRunCount); ++i) {
      const int64_t number =
          count <= kRunCount ? i : i * ((count - 1) / (kRunCount - 1));
      HF_ASSIGN_OR_RETURN(const std::string_view run,
                          Gather(runs.ChunkBox(runs.ChunkIndex(number)),
                                 scratch_.data() + byte_count,
                                 /*is_sample=*/true));
      byte_count += run.size();
    }
    return std::string_view(scratch_.data(), byte_count);
  }

 private:
  ChunkGrid GridOf(size_t piece_bytes) const {
    return {codec_.chunk_shape_,
            RowPieceShape(codec_.chunk_shape_, DTypeBytes(codec_.dtype_),
                          piece_bytes)};
  }

  std::string_view NextPacked() {
    const std::string_view all(chunk_.view.data, codec_.chunk_bytes_);
    const std::string_view piece = all.substr(next_byte_, piece_bytes_);
    next_byte_ += piece.size();
    return piece;
  }

  Result<std::string_view> Gather(const Box& box, char* target,
                                  bool is_sample) const {
    const size_t item_bytes = DTypeBytes(codec_.dtype_);
    const ArrayView piece{codec_.dtype_, target, box.shape,
                          ContiguousStrides(box.shape, item_bytes)};
    const auto inside = Intersect(box, BoxOf(chunk_.shape));
    // Only a piece that reaches beyond the array has padding.
    if (!inside || *inside != box) {
      FillStrided(piece, codec_.fill_element_.data());
    }
    if (inside) {
      const ArrayView part = Subview(piece, Relative(*inside, box.origin));
      if (chunk_.view.data != nullptr) {
        CopyStrided(Subview(chunk_.view, *inside), part);
      } else {
        HF_RETURN_IF_ERROR(chunk_.copy(*inside, part));
        if (chunk_.passed && !is_sample) chunk_.passed(*inside, part);
      }
    }
    const size_t byte_count = ElementCount(box.shape) * item_bytes;
    codec_.FinishElements({target, byte_count});
    return std::string_view(target, byte_count);
  }

  const PlainChunkCodec& codec_;
  const ChunkElements& chunk_;
  const size_t piece_bytes_;
  Buffer& scratch_;
  const bool is_packed_;
  const ChunkGrid grid_;
  int64_t piece_count_ = 0;
  int64_t next_piece_ = 0;
  size_t next_byte_ = 0;
};

Status PlainChunkCodec::EncodeStream(const ChunkElements& chunk,
                                     size_t piece_bytes, const WriteFn& write,
                                     CodecContext& context) const {
  assert(is_streamable() && chunk.dtype == dtype_);
  PieceReader reader(*this, chunk, piece_bytes, context);
  HF_RETURN_IF_ERROR(reader.Reserve());
  if (const ZstdCodec* zstd = OnlyZstd()) {
    HF_ASSIGN_OR_RETURN(const std::string_view sample, reader.Sample());
    const ZstdStrategy strategy =
        ChooseZstdStrategy(sample, zstd->params().level, context);
    return zstd->EncodeStream(
        strategy, chunk_bytes_, reader.is_packed(),
        [&] { return reader.Next(); }, piece_bytes, write, context);
  }
  for (;;) {
    HF_RETURN_IF_ERROR(context.impl().CheckCancel());
    HF_ASSIGN_OR_RETURN(const std::string_view piece, reader.Next());
    if (piece.empty()) return Status();
    HF_RETURN_IF_ERROR(write({&piece, 1}));
  }
}

// Decoded pieces on their way to a target.
class PlainChunkCodec::PieceSink final : public DecodedSink {
 public:
  PieceSink(const PlainChunkCodec& codec, const DecodedTarget& target,
            size_t piece_bytes, Buffer& scratch)
      : codec_(codec),
        target_(target),
        scratch_(scratch),
        grid_{codec.chunk_shape_,
              RowPieceShape(codec.chunk_shape_, DTypeBytes(codec.dtype_),
                            piece_bytes)},
        piece_count_(grid_.ChunkCount()) {}

  // Must be called before the first piece.
  Status Reserve() {
    if (whole() != nullptr) return Status();
    return ReserveOrFail(
        ElementCount(grid_.chunk_shape) * DTypeBytes(codec_.dtype_), scratch_);
  }
  // Must be called after the last piece.
  void Finish() {
    if (whole() != nullptr) {
      codec_.FinishElements({whole(), codec_.chunk_bytes_});
    }
  }

  uint64_t byte_count() const override { return codec_.chunk_bytes_; }
  char* whole() override { return target_.whole; }

  std::span<char> NextPiece() override {
    if (next_piece_ == piece_count_) return {};
    box_ = grid_.ChunkBox(grid_.ChunkIndex(next_piece_++));
    return {scratch_.data(), PieceBytes()};
  }

  Status TakePiece() override {
    const std::span<char> elements(scratch_.data(), PieceBytes());
    codec_.FinishElements(elements);
    const auto common = Intersect(box_, target_.part);
    if (!common) return Status();
    const ConstArrayView piece{
        codec_.dtype_, elements.data(), box_.shape,
        ContiguousStrides(box_.shape, DTypeBytes(codec_.dtype_))};
    return target_.take(*common,
                        Subview(piece, Relative(*common, box_.origin)));
  }

 private:
  size_t PieceBytes() const {
    return ElementCount(box_.shape) * DTypeBytes(codec_.dtype_);
  }

  const PlainChunkCodec& codec_;
  const DecodedTarget& target_;
  Buffer& scratch_;
  const ChunkGrid grid_;
  const int64_t piece_count_;
  int64_t next_piece_ = 0;
  Box box_;
};

Status PlainChunkCodec::DecodeRawStream(EncodedSource& encoded,
                                        size_t piece_bytes, DecodedSink& sink,
                                        CodecContext& context) const {
  if (encoded.byte_count() != chunk_bytes_) {
    return DecodedSizeError("chunk", chunk_bytes_, encoded.byte_count());
  }
  for (uint64_t done = 0; done < chunk_bytes_;) {
    HF_RETURN_IF_ERROR(context.impl().CheckCancel());
    const bool is_whole = sink.whole() != nullptr;
    const std::span<char> piece =
        is_whole ? std::span(sink.whole() + done,
                             std::min(piece_bytes, chunk_bytes_ - done))
                 : sink.NextPiece();
    HF_RETURN_IF_ERROR(encoded.ReadAt(done, piece));
    if (!is_whole) HF_RETURN_IF_ERROR(sink.TakePiece());
    done += piece.size();
  }
  return Status();
}

Result<bool> PlainChunkCodec::DecodeStream(EncodedSource& encoded,
                                           size_t piece_bytes,
                                           const DecodedTarget& target,
                                           CodecContext& context) const {
  assert(is_streamable());
  PieceSink sink(*this, target, piece_bytes, context.impl().elements);
  HF_RETURN_IF_ERROR(sink.Reserve());
  if (const ZstdCodec* zstd = OnlyZstd()) {
    HF_ASSIGN_OR_RETURN(
        const bool is_done,
        zstd->DecodeStream(encoded, piece_bytes, sink, context));
    if (!is_done) return false;
  } else {
    HF_RETURN_IF_ERROR(DecodeRawStream(encoded, piece_bytes, sink, context));
  }
  sink.Finish();
  return true;
}

}  // namespace

Result<std::shared_ptr<const ChunkCodec>> MakePlainChunkCodec(
    const PlainChainParams& params) {
  const size_t item_bytes = DTypeBytes(params.dtype);
  HF_ASSIGN_OR_RETURN(const size_t chunk_bytes,
                      CheckedChunkBytes(params.chunk_shape, item_bytes));
  HF_ASSIGN_OR_RETURN(
      std::vector<int> order,
      ComposeTransposes(params.transposes, params.chunk_shape.size()));
  if (params.fill_element.size() != item_bytes) {
    return InvalidArgumentError("fill element: wrong size (got " +
                                std::to_string(params.fill_element.size()) +
                                " bytes, want " + std::to_string(item_bytes) +
                                ")");
  }
  BytesCodecs codecs;
  for (const BytesCodecParams& codec_params : params.bytes_codecs) {
    HF_ASSIGN_OR_RETURN(auto codec, MakeBytesCodec(codec_params, item_bytes));
    codecs.push_back(std::move(codec));
  }
  return std::shared_ptr<const ChunkCodec>(std::make_shared<PlainChunkCodec>(
      params, std::move(order), chunk_bytes, std::move(codecs)));
}

}  // namespace holdfast
