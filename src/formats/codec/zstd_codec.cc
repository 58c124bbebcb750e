// For the stable buffer parameters, which libzstd calls experimental. If they
// are refused, bytes are copied, with the same result.
#define ZSTD_STATIC_LINKING_ONLY
#include "formats/codec/zstd_codec.h"

#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>

#include "formats/codec/codec_context.h"
#include "formats/codec/compressibility.h"
#include "formats/codec/size_error.h"
#include "formats/codec/zstd_frame.h"
#include "formats/codec/zstd_literals.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

// Up to this size libzstd never saves anything (it stores blocks below 7 bytes
// and requires a saving of some bytes), and calling it costs more than the
// copy.
constexpr size_t kAlwaysStoredBytesMax = 15;

// The number of input bytes between two checks of the cancel token: some 50 ms
// of work.
constexpr size_t kZstdPieceBytes = 16 << 20;

Status OutOfMemory() {
  return ResourceExhaustedError("zstd: no memory for a context");
}

// Sets all parameters of the context anew. If any were left from the previous
// chunk, the bytes would depend on what else a thread has compressed.
size_t Configure(const ZstdParams& params, ZstdStrategy strategy,
                 ZSTD_CCtx* context) {
  ZSTD_CCtx_reset(context, ZSTD_reset_session_and_parameters);
  (void)ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, params.checksum);
  const int level = strategy == ZstdStrategy::kMatches ? -1 : params.level;
  return ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
}

// Returns the error for libzstd's `result`. With `is_sized`, the frame itself
// states `expected_bytes`, so only damage can make it decode to more.
Status DecodeError(size_t result, size_t expected_bytes, bool is_sized) {
  const auto corruption = static_cast<size_t>(-ZSTD_error_corruption_detected);
  if (is_sized && ZSTD_getErrorCode(result) == ZSTD_error_dstSize_tooSmall) {
    result = corruption;
  }
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

// Compresses as ZSTD_compress2 does, but in pieces of the input. Nothing is
// copied, because both buffers stay where they are.
Result<size_t> CompressInPieces(std::string_view in, std::span<char> out,
                                ZSTD_CCtx* compressor,
                                const CodecContext::Impl& impl) {
  (void)ZSTD_CCtx_setParameter(compressor, ZSTD_c_stableInBuffer, 1);
  (void)ZSTD_CCtx_setParameter(compressor, ZSTD_c_stableOutBuffer, 1);
  // This puts the size into the frame header, as ZSTD_compress2 does.
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

// Decodes as ZSTD_decompressDCtx does, but in pieces of the input. Returns
// nullopt if the frame is damaged.
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

// Decodes an inspected frame; returns the number of bytes written.
Result<size_t> DecodeFrame(std::string_view in, const ZstdFrameInfo& info,
                           std::span<char> out, CodecContext& context) {
  if (info.stored && info.decoded_bytes_max <= out.size()) {
    const size_t byte_count = info.decoded_bytes_max;
    HF_RETURN_IF_ERROR(DecodeStoredZstdFrame(in, info, out.first(byte_count)));
    return byte_count;
  }
  const bool is_literals =
      info.content_bytes == out.size() &&
      DecodeLiteralFrame(in, info, out, context.impl().huffman_tables);
  if (is_literals) return out.size();
  ZSTD_DCtx* const decompressor = context.impl().ZstdDecompressor();
  if (decompressor == nullptr) return OutOfMemory();
  if (out.size() > kZstdPieceBytes) {
    HF_ASSIGN_OR_RETURN(
        const std::optional<size_t> got,
        DecompressInPieces(in, out, decompressor, context.impl()));
    // The one-shot decoder has better error messages, so a damaged frame is
    // decoded again.
    if (got) return *got;
  }
  const size_t result = ZSTD_decompressDCtx(decompressor, out.data(),
                                            out.size(), in.data(), in.size());
  if (ZSTD_isError(result)) {
    return DecodeError(result, out.size(), info.content_bytes == out.size());
  }
  return result;
}

Status CompressError(size_t result, uint64_t content_bytes) {
  if (ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation) {
    return OutOfMemory();
  }
  return InternalError(std::string("zstd: cannot compress ") +
                       std::to_string(content_bytes) +
                       " bytes: " + ZSTD_getErrorName(result));
}

// The output of a compressor, written whenever its buffer is full.
class StreamOutput {
 public:
  StreamOutput(std::span<char> buffer, const WriteFn& write)
      : write_(write), buffer_{buffer.data(), buffer.size(), 0} {}

  // Does one step. `left` is set to libzstd's result.
  Status Step(ZSTD_CCtx* compressor, ZSTD_inBuffer& input,
              ZSTD_EndDirective directive, size_t& left) {
    left = ZSTD_compressStream2(compressor, &buffer_, &input, directive);
    if (ZSTD_isError(left) || buffer_.pos < buffer_.size) return Status();
    return Flush();
  }

  Status Flush() {
    if (buffer_.pos == 0) return Status();
    const std::string_view piece(static_cast<const char*>(buffer_.dst),
                                 buffer_.pos);
    buffer_.pos = 0;
    return write_({&piece, 1});
  }

 private:
  const WriteFn& write_;
  ZSTD_outBuffer buffer_;
};

// Compresses in a stream. For memory that stays, the frame is ended together
// with its last bytes, as in ZSTD_compress2, so that the bytes are the same.
// For pieces, the end comes separately; otherwise the bytes would depend on
// where the last piece starts.
Status CompressStream(ZSTD_CCtx* compressor, uint64_t content_bytes,
                      bool is_stable, const NextBytesFn& next,
                      const CodecContext::Impl& impl, StreamOutput& output) {
  ZSTD_inBuffer input{nullptr, 0, 0};
  ZSTD_EndDirective directive = ZSTD_e_continue;
  size_t left = 1;
  while (directive == ZSTD_e_continue || left != 0) {
    const bool wants_more =
        directive == ZSTD_e_continue && input.pos == input.size;
    if (wants_more) {
      HF_RETURN_IF_ERROR(impl.CheckCancel());
      HF_ASSIGN_OR_RETURN(const std::string_view bytes, next());
      // With stable input, libzstd sees one buffer that grows, and reads
      // earlier bytes of it for matches.
      if (is_stable && input.src != nullptr) {
        input.size += bytes.size();
      } else {
        input = {bytes.data(), bytes.size(), 0};
      }
      const bool is_last =
          bytes.empty() || (is_stable && input.size == content_bytes);
      if (is_last) directive = ZSTD_e_end;
    }
    HF_RETURN_IF_ERROR(output.Step(compressor, input, directive, left));
    if (ZSTD_isError(left)) return CompressError(left, content_bytes);
  }
  return output.Flush();
}

// The result of one pass over a frame.
struct StreamEnd {
  size_t result = 1;        // libzstd's last result
  uint64_t read_bytes = 0;  // of the frame
  uint64_t got_bytes = 0;   // decoded
};

// Decodes window by window. The first window is already in `window`.
class StreamDecoder {
 public:
  StreamDecoder(ZSTD_DCtx* decompressor, EncodedSource& in, DecodedSink& sink,
                std::span<char> window)
      : decompressor_(decompressor), in_(in), sink_(sink), window_(window) {
    ZSTD_DCtx_reset(decompressor_, ZSTD_reset_session_only);
    const bool is_whole = sink_.whole() != nullptr;
    (void)ZSTD_DCtx_setParameter(decompressor_, ZSTD_d_stableOutBuffer,
                                 is_whole);
    (void)ZSTD_DCtx_setParameter(
        decompressor_, ZSTD_d_windowLogMax,
        ZSTD_dParam_getBounds(ZSTD_d_windowLogMax).upperBound);
    if (is_whole) {
      output_ = {sink_.whole(), sink_.byte_count(), 0};
    } else {
      StartPiece();
    }
  }
  ~StreamDecoder() {
    ZSTD_DCtx_reset(decompressor_, ZSTD_reset_session_and_parameters);
  }
  StreamDecoder(const StreamDecoder&) = delete;
  StreamDecoder& operator=(const StreamDecoder&) = delete;

  Result<StreamEnd> Decode(const CodecContext::Impl& impl) {
    while (is_running() && end_.read_bytes < in_.byte_count()) {
      HF_RETURN_IF_ERROR(impl.CheckCancel());
      const size_t byte_count = std::min<uint64_t>(
          window_.size(), in_.byte_count() - end_.read_bytes);
      if (end_.read_bytes > 0) {
        HF_RETURN_IF_ERROR(
            in_.ReadAt(end_.read_bytes, window_.first(byte_count)));
      }
      HF_RETURN_IF_ERROR(DecodeWindow({window_.data(), byte_count, 0}));
    }
    if (!is_past_end_) end_.got_bytes += output_.pos;
    return end_;
  }

 private:
  bool is_running() const {
    return end_.result != 0 && !ZSTD_isError(end_.result);
  }

  // Starts the next piece. After the last piece, one byte of room reveals a
  // frame that holds too much.
  void StartPiece() {
    const std::span<char> piece = sink_.NextPiece();
    is_past_end_ = piece.empty();
    output_ = is_past_end_ ? ZSTD_outBuffer{&past_end_, 1, 0}
                           : ZSTD_outBuffer{piece.data(), piece.size(), 0};
  }

  Status DecodeWindow(ZSTD_inBuffer input) {
    bool has_more = true;
    while (is_running() && has_more) {
      end_.result = ZSTD_decompressStream(decompressor_, &output_, &input);
      if (ZSTD_isError(end_.result)) break;
      const bool is_full = output_.pos == output_.size;
      has_more = input.pos < input.size;
      if (sink_.whole() == nullptr && is_full) {
        has_more = true;  // the decoder may hold back bytes
        HF_RETURN_IF_ERROR(EndPiece());
      }
    }
    end_.read_bytes += input.pos;
    return Status();
  }

  Status EndPiece() {
    if (is_past_end_) {
      end_.result = static_cast<size_t>(-ZSTD_error_dstSize_tooSmall);
      return Status();
    }
    end_.got_bytes += output_.size;
    HF_RETURN_IF_ERROR(sink_.TakePiece());
    StartPiece();
    return Status();
  }

  ZSTD_DCtx* const decompressor_;
  EncodedSource& in_;
  DecodedSink& sink_;
  const std::span<char> window_;
  ZSTD_outBuffer output_{};
  bool is_past_end_ = false;
  char past_end_ = 0;
  StreamEnd end_;
};

// Returns the error that Decode would return for a frame that failed as a
// stream.
Status StreamError(EncodedSource& in, uint64_t want, const StreamEnd& end) {
  if (ZSTD_getErrorCode(end.result) == ZSTD_error_memory_allocation) {
    return OutOfMemory();
  }
  HF_ASSIGN_OR_RETURN(const ZstdFrameInfo info, InspectZstdFrame(in));
  if (info.content_bytes.value_or(want) != want) {
    return DecodedSizeError("zstd frame", want, *info.content_bytes);
  }
  const uint64_t max = info.decoded_bytes_max;
  if (max < want || (info.stored && max != want)) {
    return DecodedSizeError("zstd frame", want, max);
  }
  if (info.stored) return StoredZstdChecksumError(in.byte_count());
  if (ZSTD_isError(end.result)) {
    return DecodeError(end.result, want, info.content_bytes.has_value());
  }
  if (end.got_bytes != want) {
    return DecodedSizeError("zstd frame", want, end.got_bytes);
  }
  return DataLossError("zstd frame: ends after " +
                       std::to_string(end.read_bytes) + " of its " +
                       std::to_string(in.byte_count()) + " bytes");
}

}  // namespace

ZstdStrategy ChooseZstdStrategy(std::string_view in, int level,
                                CodecContext& context) {
  if (in.size() <= kAlwaysStoredBytesMax) return ZstdStrategy::kStored;
  // A level outside the default range is the caller's explicit choice and is
  // used as it is.
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
  if (strategy == ZstdStrategy::kLiterals) {
    return WriteLiteralFrame(in, params_.checksum, out.data());
  }
  auto& impl = context.impl();
  ZSTD_CCtx* const compressor = impl.ZstdCompressor();
  if (compressor == nullptr) return OutOfMemory();
  size_t result = Configure(params_, strategy, compressor);
  if (!ZSTD_isError(result) && in.size() > kZstdPieceBytes) {
    HF_ASSIGN_OR_RETURN(result, CompressInPieces(in, out, compressor, impl));
  } else if (!ZSTD_isError(result)) {
    result = ZSTD_compress2(compressor, out.data(), out.size(), in.data(),
                            in.size());
  }
  if (!ZSTD_isError(result)) return result;
  return CompressError(result, in.size());
}

Status ZstdCodec::EncodeStream(ZstdStrategy strategy, uint64_t content_bytes,
                               bool is_stable, const NextBytesFn& next,
                               size_t piece_bytes, const WriteFn& write,
                               CodecContext& context) const {
  auto& impl = context.impl();
  if (strategy == ZstdStrategy::kStored ||
      strategy == ZstdStrategy::kLiterals) {
    LiteralsWriter literals;
    WriteZstdBlockFn write_block;
    if (strategy == ZstdStrategy::kLiterals) {
      write_block = [&](std::string_view raw, bool is_last, char* out) {
        return literals.Write(raw, is_last, out);
      };
    }
    ZstdFrameWriter writer(content_bytes, params_.checksum,
                           std::move(write_block), write);
    for (;;) {
      HF_RETURN_IF_ERROR(impl.CheckCancel());
      HF_ASSIGN_OR_RETURN(const std::string_view bytes, next());
      if (bytes.empty()) return writer.Finish();
      HF_RETURN_IF_ERROR(writer.Append(bytes));
    }
  }
  ZSTD_CCtx* const compressor = impl.ZstdCompressor();
  if (compressor == nullptr) return OutOfMemory();
  const size_t result = Configure(params_, strategy, compressor);
  if (ZSTD_isError(result)) return CompressError(result, content_bytes);
  if (is_stable) {
    (void)ZSTD_CCtx_setParameter(compressor, ZSTD_c_stableInBuffer, 1);
  }
  (void)ZSTD_CCtx_setPledgedSrcSize(compressor, content_bytes);
  const size_t out_bytes = std::max(piece_bytes, ZSTD_CStreamOutSize());
  HF_RETURN_IF_ERROR(ReserveOrFail(out_bytes, impl.window));
  StreamOutput output({impl.window.data(), out_bytes}, write);
  const Status status =
      CompressStream(compressor, content_bytes, is_stable, next, impl, output);
  // The context must not point at the elements after this returns.
  ZSTD_CCtx_reset(compressor, ZSTD_reset_session_and_parameters);
  return status;
}

Result<bool> ZstdCodec::DecodeStream(EncodedSource& in, size_t piece_bytes,
                                     DecodedSink& sink,
                                     CodecContext& context) const {
  auto& impl = context.impl();
  const uint64_t want = sink.byte_count();
  const size_t window_bytes = std::min<uint64_t>(
      std::max(piece_bytes, kZstdHeaderBytesMax), in.byte_count());
  HF_RETURN_IF_ERROR(ReserveOrFail(window_bytes, impl.window));
  const std::span<char> window(impl.window.data(), window_bytes);
  HF_RETURN_IF_ERROR(in.ReadAt(0, window));
  const Result<ZstdFrameInfo> info =
      InspectZstdHeader({window.data(), window.size()});
  if (!info.ok() || info->content_bytes.value_or(want) != want) {
    return StreamError(in, want, {});
  }
  // A large window would be a second copy of the complete chunk in memory.
  if (sink.whole() == nullptr && info->window_bytes > kStreamWindowBytesMax) {
    return false;
  }
  ZSTD_DCtx* const decompressor = impl.ZstdDecompressor();
  if (decompressor == nullptr) return OutOfMemory();
  HF_ASSIGN_OR_RETURN(
      const StreamEnd end,
      StreamDecoder(decompressor, in, sink, window).Decode(impl));
  const bool is_done = end.result == 0 && end.got_bytes == want &&
                       end.read_bytes == in.byte_count();
  if (is_done) return true;
  return StreamError(in, want, end);
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
  // CheckContentSize has ensured that the blocks justify the claim.
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
