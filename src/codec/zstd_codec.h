// The zstd codec: one chunk is exactly one frame (RFC 8878), with its content
// size and, by default, its content checksum.
//
// At levels 0 to 3, where speed is wanted, a look at the chunk chooses how that
// frame is made; other levels always search as asked:
//   kSearch    libzstd at the level asked for
//   kMatches   libzstd at level -1: repeats only, bytes are not entropy coded,
//              for that would save too little
//   kLiterals  libzstd without the search: there is nothing to find, and the
//              entropy of the bytes is all there is
//   kStored    raw blocks: neither would save enough
//
// Thread-safety: immutable. Ownership: inputs are borrowed. Units: bytes.
// Errors: DataLoss for frames that are damaged, doubled, followed by anything,
// or of another size; ResourceExhausted when memory is short.
#pragma once

#include "codec/codec.h"

namespace holdfast {

// Entropy coding that saves less than this fraction is left out. Measured on
// one core of an EPYC, 16 MiB chunks of N(0, 0.02), level 1 with checksum:
//   bfloat16  saves 22 % at 1.0 GB/s (decodes at 1.6): compressed
//   float32   saves  8 % at 1.1 GB/s (decodes at 1.6): stored, at 11 GB/s, or
//   22
//             as pieces (decodes at 14); float16, float64 and moments alike
inline constexpr double kLiteralSavingMin = 0.125;
// Below this fraction saved by repeats in a sample there is nothing to search.
inline constexpr double kMatchSavingMin = 0.02;
// Smaller chunks always get the search (6 GB/s when it finds nothing).
inline constexpr size_t kSkipSearchBytesMin = size_t{256} << 10;

// RFC 8878 wants every decoder to have this much; level 22 uses more.
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

  // Encode in two steps, for a caller that can use a stored frame as pieces
  // around `in` (StoredZstdFramePieces) instead of a copy of it.
  Result<size_t> EncodeWith(ZstdStrategy strategy, std::string_view in,
                            std::span<char> out, CodecContext& context) const;
  // One frame of the bytes that `next` gives, `content_bytes` in all, written
  // in pieces. `is_stable`: they lie behind each other in memory that stays.
  Status EncodeStream(ZstdStrategy strategy, uint64_t content_bytes,
                      bool is_stable, const NextBytesFn& next,
                      size_t piece_bytes, const WriteFn& write,
                      CodecContext& context) const;
  // Decodes the one frame that `in` must be, with Decode's errors. False, and
  // nothing done, for a sink of pieces when the frame wants more history than
  // kStreamWindowBytesMax.
  Result<bool> DecodeStream(EncodedSource& in, size_t piece_bytes,
                            DecodedSink& sink, CodecContext& context) const;
  const ZstdParams& params() const { return params_; }

 private:
  ZstdParams params_;
};

}  // namespace holdfast
