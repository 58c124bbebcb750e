#include "codec/blosc_codec.h"

#include <blosc.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "base/status_macros.h"
#include "codec/codec_context.h"
#include "codec/size_error.h"

namespace holdfast {
namespace {

constexpr std::array<std::string_view, 6> kCompressorNames = {
    "blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"};

// No compressor in blosc makes more of a byte than zstd, whose run of 128 KiB
// takes 4 (and the block in front of it is never empty).
constexpr uint64_t kDecodeFactorMax = 32768;

// The decoded size in the header, once the header's own claim of the encoded
// size has been compared with the bytes there are.
Result<size_t> CheckHeader(std::string_view in) {
  size_t decoded_bytes = 0;
  if (blosc_cbuffer_validate(in.data(), in.size(), &decoded_bytes) != 0) {
    return DataLossError("blosc container: bad header or size (got " +
                         std::to_string(in.size()) + " bytes)");
  }
  return decoded_bytes;
}

Status DecodeChecked(std::string_view in, std::span<char> out) {
  const char* compressor = blosc_cbuffer_complib(in.data());
  if (compressor == nullptr) {
    return DataLossError("blosc container: unknown compressor");
  }
  const int result = blosc_decompress_ctx(in.data(), out.data(), out.size(), 1);
  if (result >= 0 && static_cast<size_t>(result) == out.size()) {
    return Status();
  }
  return DataLossError(std::string("blosc container: ") + compressor +
                       " data does not decode (result " +
                       std::to_string(result) + ", want " +
                       std::to_string(out.size()) + " bytes)");
}

}  // namespace

bool IsBloscCompressorName(std::string_view cname) {
  return std::find(kCompressorNames.begin(), kCompressorNames.end(), cname) !=
         kCompressorNames.end();
}

BloscCodec::BloscCodec(const BloscParams& params, size_t item_bytes)
    : params_(params) {
  if (params_.typesize == 0) params_.typesize = item_bytes;
  if (params_.shuffle == -1) {
    params_.shuffle = params_.typesize == 1 ? BLOSC_BITSHUFFLE : BLOSC_SHUFFLE;
  }
}

size_t BloscCodec::EncodedBytesMax(size_t decoded_bytes) const {
  return decoded_bytes + BLOSC_MAX_OVERHEAD;
}

uint64_t BloscCodec::DecodedBytesMax(std::string_view in) const {
  return in.size() * kDecodeFactorMax;
}

Result<size_t> BloscCodec::Encode(std::string_view in, std::span<char> out,
                                  CodecContext&) const {
  assert(out.size() >= EncodedBytesMax(in.size()));
  if (in.size() > BLOSC_MAX_BUFFERSIZE) {
    return InvalidArgumentError(
        "blosc: chunk too large (got " + std::to_string(in.size()) +
        " bytes, want at most " + std::to_string(BLOSC_MAX_BUFFERSIZE) + ")");
  }
  if (blosc_compname_to_compcode(params_.cname.c_str()) < 0) {
    return UnimplementedError("blosc: this build has no compressor " +
                              params_.cname);
  }
  const int result = blosc_compress_ctx(
      params_.clevel, params_.shuffle, params_.typesize, in.size(), in.data(),
      out.data(), out.size(), params_.cname.c_str(), params_.blocksize, 1);
  if (result > 0) return static_cast<size_t>(result);
  return InternalError("blosc: cannot compress " + std::to_string(in.size()) +
                       " bytes with " + params_.cname + " (result " +
                       std::to_string(result) + ")");
}

Status BloscCodec::Decode(std::string_view in, std::span<char> out,
                          CodecContext&) const {
  HF_ASSIGN_OR_RETURN(const size_t decoded_bytes, CheckHeader(in));
  if (decoded_bytes != out.size()) {
    return DecodedSizeError("blosc container", out.size(), decoded_bytes);
  }
  return DecodeChecked(in, out);
}

Result<Bytes> BloscCodec::DecodeBounded(std::string_view in,
                                        size_t decoded_bytes_max,
                                        CodecContext&) const {
  HF_ASSIGN_OR_RETURN(const size_t decoded_bytes, CheckHeader(in));
  if (decoded_bytes > decoded_bytes_max) {
    return DecodedSizeError("blosc container", decoded_bytes_max,
                            decoded_bytes);
  }
  if (decoded_bytes > DecodedBytesMax(in)) {
    return DecodedSizeError("blosc container", decoded_bytes,
                            DecodedBytesMax(in));
  }
  Buffer buffer;
  HF_RETURN_IF_ERROR(ReserveOrFail(decoded_bytes, buffer));
  HF_RETURN_IF_ERROR(DecodeChecked(in, {buffer.data(), decoded_bytes}));
  return Bytes(std::move(buffer), decoded_bytes);
}

}  // namespace holdfast
