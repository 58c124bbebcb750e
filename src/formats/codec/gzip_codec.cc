#include "formats/codec/gzip_codec.h"

#include <zlib.h>

#include <algorithm>
#include <cassert>
#include <limits>
#include <string>
#include <utility>

#include "formats/codec/codec_context.h"
#include "formats/codec/size_error.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

constexpr int kWindowBits = 15;
constexpr int kGzipWindowBits = kWindowBits + 16;  // zlib's code for "gzip"
constexpr int kMemoryLevel = 8;
// One byte of a deflate stream yields at most 1032 bytes (a 258-byte match
// takes two bits), whatever a damaged stream claims.
constexpr uint64_t kInflateFactorMax = 1032;

int WindowBits(const GzipParams& params) {
  return params.zlib_header ? kWindowBits : kGzipWindowBits;
}

// Returns the size of the next part of a buffer. zlib counts in 32 bits, so it
// gets larger buffers in parts.
uInt TakePart(size_t& left) {
  const size_t part =
      std::min<size_t>(left, std::numeric_limits<uInt>::max() / 2);
  left -= part;
  return static_cast<uInt>(part);
}

void Refill(z_stream& stream, size_t& in_left, size_t& out_left) {
  if (stream.avail_in == 0) stream.avail_in = TakePart(in_left);
  if (stream.avail_out == 0) stream.avail_out = TakePart(out_left);
}

// Points the stream at the buffers. zlib refuses null pointers even for empty
// buffers, so these get the stream's own address: nothing is read from it or
// written to it.
void Attach(z_stream& stream, std::string_view in, std::span<char> out) {
  auto* const unused = reinterpret_cast<Bytef*>(&stream);
  stream.next_in = in.empty()
                       ? unused
                       : reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
  stream.next_out = out.empty() ? unused : reinterpret_cast<Bytef*>(out.data());
}

}  // namespace

Status GzipCodec::DataError(std::string_view what) const {
  return DataLossError(std::string(name()) + " stream: " + std::string(what));
}

size_t GzipCodec::EncodedBytesMax(size_t decoded_bytes) const {
  // compressBound is for a zlib stream; gzip's header and trailer need 12 bytes
  // more.
  return compressBound(decoded_bytes) + 12;
}

uint64_t GzipCodec::DecodedBytesMax(std::string_view in) const {
  return in.size() * kInflateFactorMax;
}

Result<size_t> GzipCodec::Encode(std::string_view in, std::span<char> out,
                                 CodecContext&) const {
  assert(out.size() >= EncodedBytesMax(in.size()));
  z_stream stream{};
  if (deflateInit2(&stream, params_.level, Z_DEFLATED, WindowBits(params_),
                   kMemoryLevel, Z_DEFAULT_STRATEGY) != Z_OK) {
    return ResourceExhaustedError(std::string(name()) + ": no memory");
  }
  Attach(stream, in, out);
  size_t in_left = in.size();
  size_t out_left = out.size();
  int code = Z_OK;
  while (code == Z_OK) {
    Refill(stream, in_left, out_left);
    // Z_FINISH is passed only with the last part, or zlib would end the stream
    // early.
    code = deflate(&stream, in_left == 0 ? Z_FINISH : Z_NO_FLUSH);
  }
  const size_t encoded_bytes = stream.total_out;
  deflateEnd(&stream);
  if (code == Z_STREAM_END) return encoded_bytes;
  return InternalError(std::string(name()) + ": cannot compress " +
                       std::to_string(in.size()) + " bytes (zlib result " +
                       std::to_string(code) + ")");
}

// Decodes the one stream that `in` must be; returns the number of bytes
// written.
Result<size_t> GzipCodec::Inflate(std::string_view in,
                                  std::span<char> out) const {
  z_stream stream{};
  if (inflateInit2(&stream, WindowBits(params_)) != Z_OK) {
    return ResourceExhaustedError(std::string(name()) + ": no memory");
  }
  Attach(stream, in, out);
  size_t in_left = in.size();
  size_t out_left = out.size();
  int code = Z_OK;
  while (code == Z_OK) {
    Refill(stream, in_left, out_left);
    code = inflate(&stream, Z_NO_FLUSH);
  }
  const size_t decoded_bytes = stream.total_out;
  const size_t unread_bytes = in_left + stream.avail_in;
  const std::string reason = stream.msg != nullptr ? stream.msg : "damaged";
  inflateEnd(&stream);

  if (code == Z_MEM_ERROR) {
    return ResourceExhaustedError(std::string(name()) + ": no memory");
  }
  // Z_BUF_ERROR means "no progress". If all input was read, the stream is cut
  // short; otherwise the target is full.
  if (code == Z_BUF_ERROR && unread_bytes == 0) return DataError("truncated");
  if (code == Z_BUF_ERROR) {
    return DataError("End of data expected; decodes to more than the " +
                     std::to_string(out.size()) + " bytes wanted");
  }
  if (code != Z_STREAM_END) return DataError(reason);
  if (unread_bytes > 0) {
    return DataError("bytes after the stream (got " +
                     std::to_string(unread_bytes) + ", want 0)");
  }
  return decoded_bytes;
}

Status GzipCodec::Decode(std::string_view in, std::span<char> out,
                         CodecContext&) const {
  HF_ASSIGN_OR_RETURN(const size_t got, Inflate(in, out));
  if (got == out.size()) return Status();
  return DecodedSizeError(std::string(name()) + " stream", out.size(), got);
}

Result<Bytes> GzipCodec::DecodeBounded(std::string_view in,
                                       size_t decoded_bytes_max,
                                       CodecContext&) const {
  // Allocates what the bytes can decode to, not what the caller allows.
  const size_t byte_count =
      std::min<uint64_t>(decoded_bytes_max, DecodedBytesMax(in));
  Buffer buffer;
  HF_RETURN_IF_ERROR(ReserveOrFail(byte_count, buffer));
  HF_ASSIGN_OR_RETURN(const size_t got,
                      Inflate(in, {buffer.data(), byte_count}));
  return Bytes(std::move(buffer), got);
}

}  // namespace holdfast
