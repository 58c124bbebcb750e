// The zstd codec: one chunk is exactly one frame (RFC 8878), with its content
// size and, by default, its content checksum.
//
// At levels 0 to 3, which are meant to be fast, a sample of the chunk decides
// how the frame is made; other levels always search as the caller asked:
//   kSearch    libzstd at the given level
//   kMatches   libzstd at level -1: repeats only; entropy coding of the bytes
//              would save too little
//   kLiterals  blocks of literals (zstd_literals.h) and no search: only the
//              entropy of the bytes can be saved
//   kStored    raw blocks: neither repeats nor entropy would save enough
//
// Thread-safety: immutable. Ownership: inputs are borrowed. Units: bytes.
// Errors: DataLoss for frames that are damaged, repeated, followed by other
// bytes, or of another size; ResourceExhausted when memory is short.
#pragma once

#include "formats/codec/codec.h"

namespace holdfast {

// Entropy coding that saves less than this fraction is skipped.
inline constexpr double kLiteralSavingMin = 0.01;
// If repeats would save less than this fraction of a sample, no search is made.
inline constexpr double kMatchSavingMin = 0.02;
// Smaller chunks are always searched, since a sample of them shows too little.
inline constexpr size_t kSkipSearchBytesMin = size_t{64} << 10;

// RFC 8878 requires every decoder to support this much; level 22 uses more.
inline constexpr uint64_t kStreamWindowBytesMax = uint64_t{8} << 20;

enum class ZstdStrategy : uint8_t { kSearch, kMatches, kLiterals, kStored };

ZstdStrategy ChooseZstdStrategy(std::string_view in, int level,
                                CodecContext& context);

class ZstdCodec : public BytesCodec {
 public:
  explicit ZstdCodec(const ZstdParams& params) : params_(params) {}

  std::string_view name() const override { return "zstd"; }
  size_t EncodedBytesMax(size_t decoded_bytes) const override;
  uint64_t DecodedBytesMax(std::string_view in) const override;
  Result<size_t> Encode(std::string_view in, std::span<char> out,
                        CodecContext& context) const override;
  Status Decode(std::string_view in, std::span<char> out,
                CodecContext& context) const override;
  Result<Bytes> DecodeBounded(std::string_view in, size_t decoded_bytes_max,
                              CodecContext& context) const override;

  // Encodes with a strategy from ChooseZstdStrategy. For kStored, a caller can
  // instead call StoredZstdFramePieces, which does not copy `in`.
  Result<size_t> EncodeWith(ZstdStrategy strategy, std::string_view in,
                            std::span<char> out, CodecContext& context) const;
  // Writes one frame, in pieces, of the `content_bytes` bytes that `next`
  // returns. If `is_stable`, these bytes are contiguous in memory that stays
  // valid.
  Status EncodeStream(ZstdStrategy strategy, uint64_t content_bytes,
                      bool is_stable, const NextBytesFn& next,
                      size_t piece_bytes, const WriteFn& write,
                      CodecContext& context) const;
  // Decodes the one frame that `in` must be, with Decode's errors. Returns
  // false and does nothing if `sink` has no memory for all bytes and the frame
  // needs more history than kStreamWindowBytesMax.
  Result<bool> DecodeStream(EncodedSource& in, size_t piece_bytes,
                            DecodedSink& sink, CodecContext& context) const;
  const ZstdParams& params() const { return params_; }

 private:
  ZstdParams params_;
};

}  // namespace holdfast
