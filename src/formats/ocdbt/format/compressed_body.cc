#include "formats/ocdbt/format/compressed_body.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "ground/base/status_macros.h"

namespace holdfast::ocdbt {
namespace {

constexpr int kWindowLogMax = 27;

struct FreeContext {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

// Returns the first estimate of the output size. The frame's own claim is
// trusted only up to a common ratio; beyond that, the buffer grows as data
// actually arrive.
uint64_t FirstBytes(std::string_view frame, uint64_t body_bytes_max) {
  const uint64_t claim = ZSTD_getFrameContentSize(frame.data(), frame.size());
  const uint64_t likely = std::max<uint64_t>(64 << 10, 16 * frame.size());
  const bool known =
      claim != ZSTD_CONTENTSIZE_UNKNOWN && claim != ZSTD_CONTENTSIZE_ERROR;
  // One more byte, so that a body of exactly the limit ends without growing.
  return std::min({known ? claim + 1 : likely, likely, body_bytes_max + 1});
}

Status Grow(Buffer& buffer, uint64_t used_byte_count, uint64_t byte_count) {
  Buffer larger = Buffer::TryAllocate(byte_count);
  if (larger.data() == nullptr) {
    return ResourceExhaustedError("no memory for a node of " +
                                  std::to_string(byte_count) + " bytes");
  }
  if (used_byte_count != 0) {
    std::memcpy(larger.data(), buffer.data(), used_byte_count);
  }
  buffer = std::move(larger);
  return Status();
}

}  // namespace

Status CheckBodyBytes(uint64_t byte_count, uint64_t byte_count_max) {
  if (byte_count <= byte_count_max) return Status();
  return DataLossError("Decompressed size exceeds limit of " +
                       std::to_string(byte_count_max) + " bytes");
}

Result<DecompressedFrame> DecompressFrame(std::string_view frame,
                                          uint64_t body_bytes_max) {
  std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  if (context == nullptr) return ResourceExhaustedError("no memory for zstd");
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, kWindowLogMax);

  Buffer buffer;
  uint64_t room = FirstBytes(frame, body_bytes_max);
  HF_RETURN_IF_ERROR(Grow(buffer, 0, room));
  ZSTD_inBuffer input{frame.data(), frame.size(), 0};
  ZSTD_outBuffer output{buffer.data(), room, 0};
  while (true) {
    const size_t input_before = input.pos;
    const size_t output_before = output.pos;
    const size_t hint = ZSTD_decompressStream(context.get(), &output, &input);
    if (ZSTD_isError(hint)) {
      return InvalidArgumentError(
          std::string("ZSTD_decompressStream() failed: ") +
          ZSTD_getErrorName(hint));
    }
    HF_RETURN_IF_ERROR(CheckBodyBytes(output.pos, body_bytes_max));
    if (hint == 0) break;  // the end of the frame
    if (output.pos == room) {
      room = std::min(2 * room, body_bytes_max + 1);
      HF_RETURN_IF_ERROR(Grow(buffer, output.pos, room));
      output.dst = buffer.data();
      output.size = room;
    } else if (input.pos == input_before && output.pos == output_before) {
      return InvalidArgumentError("Truncated Zstd-compressed stream");
    }
  }
  DecompressedFrame result;
  result.unread_byte_count = frame.size() - input.pos;
  result.body = Bytes(std::move(buffer), output.pos);
  return result;
}

uint64_t CompressedBytesMax(uint64_t body_byte_count) {
  return ZSTD_compressBound(body_byte_count);
}

Result<uint64_t> CompressFrame(std::string_view body, int level, char* target,
                               uint64_t target_byte_count) {
  const size_t written =
      ZSTD_compress(target, target_byte_count, body.data(), body.size(), level);
  if (ZSTD_isError(written)) {
    return InternalError(std::string("ZSTD_compress() failed: ") +
                         ZSTD_getErrorName(written));
  }
  return written;
}

}  // namespace holdfast::ocdbt
