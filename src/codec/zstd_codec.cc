// For ZSTD_c_literalCompressionMode. It is an advanced parameter and not part
// of libzstd's stable interface; where it is refused, frames are larger or
// slower to make, but never wrong.
#define ZSTD_STATIC_LINKING_ONLY
#include "codec/zstd_codec.h"

#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "codec/codec_context.h"
#include "codec/compressibility.h"
#include "codec/size_error.h"
#include "codec/zstd_frame.h"

namespace holdfast {
namespace {

// Up to this size libzstd never finds anything (it stores blocks below 7 bytes
// and needs a saving of some bytes), and calling it costs more than the copy.
constexpr size_t kAlwaysStoredBytesMax = 15;

// Input between two looks at the cancel token: some 50 ms of work.
constexpr size_t kZstdPieceBytes = 16 << 20;

Status OutOfMemory() {
  return ResourceExhaustedError("zstd: no memory for a context");
}

// All parameters of the context, from scratch: nothing may leak from the chunk
// before, or the bytes would depend on what else a thread has compressed.
size_t Configure(const ZstdParams& params, ZstdStrategy strategy,
                 int worker_count, ZSTD_CCtx* context) {
  ZSTD_CCtx_reset(context, ZSTD_reset_session_and_parameters);
  if (worker_count > 0) {
    // Refused by a libzstd without threads, which then works alone.
    (void)ZSTD_CCtx_setParameter(context, ZSTD_c_nbWorkers, worker_count);
  }
  const bool literals_only = strategy == ZstdStrategy::kLiterals;
  if (literals_only) {
    (void)ZSTD_CCtx_setParameter(context, ZSTD_c_literalCompressionMode,
                                 ZSTD_ps_enable);
  }
  (void)ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, params.checksum);
  // The most negative level skips nearly all of the search.
  const int level = literals_only                        ? ZSTD_minCLevel()
                    : strategy == ZstdStrategy::kMatches ? -1
                                                         : params.level;
  return ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
}

Status DecodeError(size_t result, size_t expected_bytes) {
  switch (ZSTD_getErrorCode(result)) {
    case ZSTD_error_checksum_wrong:
      return DataLossError("zstd frame: content checksum mismatch");
    case ZSTD_error_memory_allocation:
      return OutOfMemory();
    case ZSTD_error_dstSize_tooSmall:
      return DataLossError(
          "zstd frame: End of data expected; decodes to more "
          "than the " +
          std::to_string(expected_bytes) + " bytes wanted");
    default:
      return DataLossError(std::string("zstd frame: ") +
                           ZSTD_getErrorName(result));
  }
}

// Compresses as ZSTD_compress2 does, in pieces of the input. Nothing is copied:
// both buffers stay where they are.
Result<size_t> CompressInPieces(std::string_view in, std::span<char> out,
                                ZSTD_CCtx* compressor,
                                const CodecContext::Impl& impl) {
  (void)ZSTD_CCtx_setParameter(compressor, ZSTD_c_stableInBuffer, 1);
  (void)ZSTD_CCtx_setParameter(compressor, ZSTD_c_stableOutBuffer, 1);
  (void)ZSTD_CCtx_setPledgedSrcSize(compressor, in.size());
  ZSTD_inBuffer input{in.data(), 0, 0};
  ZSTD_outBuffer output{out.data(), out.size(), 0};
  size_t left = 1;
  while (left != 0) {
    HF_RETURN_IF_ERROR(impl.CheckCancel());
    input.size = std::min(in.size(), input.size + kZstdPieceBytes);
    const bool is_last = input.size == in.size();
    left = ZSTD_compressStream2(compressor, &output, &input,
                                is_last ? ZSTD_e_end : ZSTD_e_continue);
    if (ZSTD_isError(left)) return left;
    if (!is_last) left = 1;
  }
  return output.pos;
}

// Decodes as ZSTD_decompressDCtx does, in pieces of the input. Nullopt when the
// frame is damaged.
Result<std::optional<size_t>> DecompressInPieces(
    std::string_view in, std::span<char> out, ZSTD_DCtx* decompressor,
    const CodecContext::Impl& impl) {
  ZSTD_DCtx_reset(decompressor, ZSTD_reset_session_and_parameters);
  (void)ZSTD_DCtx_setParameter(decompressor, ZSTD_d_stableOutBuffer, 1);
  ZSTD_inBuffer input{in.data(), 0, 0};
  ZSTD_outBuffer output{out.data(), out.size(), 0};
  size_t left = 1;
  Status status;
  while (left != 0 && !ZSTD_isError(left) && input.pos < in.size()) {
    status = impl.CheckCancel();
    if (!status.ok()) break;
    input.size = std::min(in.size(), input.pos + kZstdPieceBytes);
    left = ZSTD_decompressStream(decompressor, &output, &input);
  }
  ZSTD_DCtx_reset(decompressor, ZSTD_reset_session_and_parameters);
  HF_RETURN_IF_ERROR(status);
  const bool is_whole = left == 0 && input.pos == in.size();
  return is_whole ? std::optional<size_t>(output.pos) : std::nullopt;
}

// Decodes an inspected frame; returns the bytes written.
Result<size_t> DecodeFrame(std::string_view in, const ZstdFrameInfo& info,
                           std::span<char> out, CodecContext& context) {
  if (info.stored && info.decoded_bytes_max <= out.size()) {
    const size_t byte_count = info.decoded_bytes_max;
    HF_RETURN_IF_ERROR(DecodeStoredZstdFrame(in, info, out.first(byte_count)));
    return byte_count;
  }
  ZSTD_DCtx* const decompressor = context.impl().ZstdDecompressor();
  if (decompressor == nullptr) return OutOfMemory();
  if (out.size() > kZstdPieceBytes) {
    HF_ASSIGN_OR_RETURN(
        const std::optional<size_t> got,
        DecompressInPieces(in, out, decompressor, context.impl()));
    // A damaged frame is decoded again for its error.
    if (got) return *got;
  }
  const size_t result = ZSTD_decompressDCtx(decompressor, out.data(),
                                            out.size(), in.data(), in.size());
  if (ZSTD_isError(result)) return DecodeError(result, out.size());
  return result;
}

}  // namespace

ZstdStrategy ChooseZstdStrategy(std::string_view in, int level,
                                CodecContext& context) {
  if (in.size() <= kAlwaysStoredBytesMax) return ZstdStrategy::kStored;
  if (level < 0 || level > 3) return ZstdStrategy::kSearch;
  const bool code_literals = EstimateLiteralSaving(in) >= kLiteralSavingMin;
  if (in.size() < kSkipSearchBytesMin) {
    return code_literals ? ZstdStrategy::kSearch : ZstdStrategy::kMatches;
  }
  if (EstimateMatchSaving(in, context) >= kMatchSavingMin ||
      HasDistantRepeat(in)) {
    return ZstdStrategy::kSearch;
  }
  return code_literals ? ZstdStrategy::kLiterals : ZstdStrategy::kStored;
}

size_t ZstdCodec::EncodedBytesMax(size_t decoded_bytes) const {
  // compressBound leaves no room for a checksum.
  return std::max(ZSTD_compressBound(decoded_bytes) + 4,
                  StoredZstdFrameBytes(decoded_bytes, params_.checksum));
}

uint64_t ZstdCodec::DecodedBytesMax(std::string_view in) const {
  const auto info = InspectZstdFrame(in);
  return info.ok() ? info->decoded_bytes_max : 0;
}

Result<size_t> ZstdCodec::Encode(std::string_view in, std::span<char> out,
                                 CodecContext& context) const {
  return EncodeWith(ChooseZstdStrategy(in, params_.level, context), in, out,
                    context);
}

Result<size_t> ZstdCodec::EncodeWith(ZstdStrategy strategy, std::string_view in,
                                     std::span<char> out,
                                     CodecContext& context) const {
  assert(out.size() >= EncodedBytesMax(in.size()));
  if (strategy == ZstdStrategy::kStored) {
    return WriteStoredZstdFrame(in, params_.checksum, out);
  }
  auto& impl = context.impl();
  ZSTD_CCtx* const compressor = impl.ZstdCompressor();
  if (compressor == nullptr) return OutOfMemory();
  const int worker_count =
      in.size() >= kZstdWorkerBytesMin ? impl.zstd_worker_count : 0;
  size_t result = Configure(params_, strategy, worker_count, compressor);
  if (!ZSTD_isError(result) && in.size() > kZstdPieceBytes) {
    HF_ASSIGN_OR_RETURN(result, CompressInPieces(in, out, compressor, impl));
  } else if (!ZSTD_isError(result)) {
    result = ZSTD_compress2(compressor, out.data(), out.size(), in.data(),
                            in.size());
  }
  if (!ZSTD_isError(result)) return result;
  if (ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation) {
    return OutOfMemory();
  }
  return InternalError(std::string("zstd: cannot compress ") +
                       std::to_string(in.size()) +
                       " bytes: " + ZSTD_getErrorName(result));
}

Status ZstdCodec::Decode(std::string_view in, std::span<char> out,
                         CodecContext& context) const {
  HF_ASSIGN_OR_RETURN(const ZstdFrameInfo info, InspectZstdFrame(in));
  const uint64_t max = info.decoded_bytes_max;
  if (info.content_bytes.value_or(out.size()) != out.size()) {
    return DecodedSizeError("zstd frame", out.size(), *info.content_bytes);
  }
  if (max < out.size() || (info.stored && max != out.size())) {
    return DecodedSizeError("zstd frame", out.size(), max);
  }
  HF_ASSIGN_OR_RETURN(const size_t got, DecodeFrame(in, info, out, context));
  if (got == out.size()) return Status();
  return DecodedSizeError("zstd frame", out.size(), got);
}

Result<Bytes> ZstdCodec::DecodeBounded(std::string_view in,
                                       size_t decoded_bytes_max,
                                       CodecContext& context) const {
  HF_ASSIGN_OR_RETURN(const ZstdFrameInfo info, InspectZstdFrame(in));
  const uint64_t claimed = info.content_bytes.value_or(0);
  if (claimed > decoded_bytes_max) {
    return DecodedSizeError("zstd frame", decoded_bytes_max, claimed);
  }
  // CheckContentSize has made sure that the blocks justify the claim.
  const uint64_t byte_count = info.content_bytes.value_or(
      std::min<uint64_t>(decoded_bytes_max, info.decoded_bytes_max));
  Buffer buffer;
  HF_RETURN_IF_ERROR(ReserveOrFail(byte_count, buffer));
  HF_ASSIGN_OR_RETURN(
      const size_t got,
      DecodeFrame(in, info, {buffer.data(), byte_count}, context));
  return Bytes(std::move(buffer), got);
}

}  // namespace holdfast
