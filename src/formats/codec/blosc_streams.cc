#include "formats/codec/blosc_streams.h"

#include <lz4.h>
#include <lz4hc.h>
#include <snappy-c.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <array>
#include <string>

#include "formats/codec/blosclz.h"
#include "formats/codec/codec_context.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

// In the order of BloscCompressor.
constexpr std::array<std::string_view, 6> kBloscCompressorNames = {
    "blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"};

Status NoMemoryFor(BloscCompressor compressor) {
  return ResourceExhaustedError("blosc: no memory for " +
                                std::string(BloscFormatName(compressor)));
}

// Converts a size that LZ4 returns. LZ4 uses ints for sizes, which are enough
// for blosc's streams.
size_t SizeOfLz4(int result) {
  return result > 0 ? static_cast<size_t>(result) : 0;
}

Result<size_t> CompressLz4hc(int level, std::string_view in,
                             std::span<char> out, CodecContext& context) {
  Buffer& state = context.impl().lz4hc;
  HF_RETURN_IF_ERROR(
      ReserveOrFail(static_cast<size_t>(LZ4_sizeofStateHC()), state));
  return SizeOfLz4(LZ4_compress_HC_extStateHC(
      state.data(), in.data(), out.data(), static_cast<int>(in.size()),
      static_cast<int>(out.size()), level));
}

Result<size_t> CompressSnappy(std::string_view in, std::span<char> out) {
  return CatchBadAlloc([&]() -> Result<size_t> {
    size_t byte_count = out.size();
    const snappy_status status =
        snappy_compress(in.data(), in.size(), out.data(), &byte_count);
    return status == SNAPPY_OK ? byte_count : 0;
  });
}

Result<size_t> CompressZlib(int level, std::string_view in,
                            std::span<char> out) {
  uLongf byte_count = out.size();
  const int code =
      compress2(reinterpret_cast<Bytef*>(out.data()), &byte_count,
                reinterpret_cast<const Bytef*>(in.data()), in.size(), level);
  if (code == Z_MEM_ERROR) return NoMemoryFor(BloscCompressor::kZlib);
  return code == Z_OK ? byte_count : 0;
}

Result<size_t> CompressZstd(int level, std::string_view in, std::span<char> out,
                            CodecContext& context) {
  ZSTD_CCtx* const compressor = context.impl().ZstdCompressor();
  if (compressor == nullptr) return NoMemoryFor(BloscCompressor::kZstd);
  ZSTD_CCtx_reset(compressor, ZSTD_reset_session_and_parameters);
  // Maps c-blosc's levels 1 to 9 to zstd's levels.
  const int zstd_level = level < 9 ? level * 2 - 1 : ZSTD_maxCLevel();
  const size_t result = ZSTD_compressCCtx(compressor, out.data(), out.size(),
                                          in.data(), in.size(), zstd_level);
  if (!ZSTD_isError(result)) return result;
  // The target is too small, so the caller stores the stream uncompressed.
  if (ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation) {
    return NoMemoryFor(BloscCompressor::kZstd);
  }
  return size_t{0};
}

bool DecompressLz4(std::string_view in, std::span<char> out) {
  const int result =
      LZ4_decompress_safe(in.data(), out.data(), static_cast<int>(in.size()),
                          static_cast<int>(out.size()));
  return result >= 0 && static_cast<size_t>(result) == out.size();
}

bool DecompressSnappy(std::string_view in, std::span<char> out) {
  size_t byte_count = out.size();
  return snappy_uncompress(in.data(), in.size(), out.data(), &byte_count) ==
             SNAPPY_OK &&
         byte_count == out.size();
}

Result<bool> DecompressZlib(std::string_view in, std::span<char> out) {
  uLongf byte_count = out.size();
  const int code =
      uncompress(reinterpret_cast<Bytef*>(out.data()), &byte_count,
                 reinterpret_cast<const Bytef*>(in.data()), in.size());
  if (code == Z_MEM_ERROR) return NoMemoryFor(BloscCompressor::kZlib);
  return code == Z_OK && byte_count == out.size();
}

Result<bool> DecompressZstd(std::string_view in, std::span<char> out,
                            CodecContext& context) {
  ZSTD_DCtx* const decompressor = context.impl().ZstdDecompressor();
  if (decompressor == nullptr) return NoMemoryFor(BloscCompressor::kZstd);
  const size_t result = ZSTD_decompressDCtx(decompressor, out.data(),
                                            out.size(), in.data(), in.size());
  if (ZSTD_isError(result) &&
      ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation) {
    return NoMemoryFor(BloscCompressor::kZstd);
  }
  return result == out.size();
}

}  // namespace

std::optional<BloscCompressor> BloscCompressorNamed(std::string_view cname) {
  for (size_t i = 0; i < kBloscCompressorNames.size(); ++i) {
    if (kBloscCompressorNames[i] == cname) {
      return static_cast<BloscCompressor>(i);
    }
  }
  return std::nullopt;
}

uint8_t BloscFormatOf(BloscCompressor compressor) {
  // LZ4 and LZ4HC are two compressors with one format.
  const auto index = static_cast<uint8_t>(compressor);
  return compressor < BloscCompressor::kLz4hc ? index : index - 1;
}

std::optional<BloscCompressor> BloscCompressorOfFormat(uint8_t format) {
  if (format > BloscFormatOf(BloscCompressor::kZstd)) return std::nullopt;
  return static_cast<BloscCompressor>(format < 2 ? format : format + 1);
}

std::string_view BloscFormatName(BloscCompressor compressor) {
  return kBloscCompressorNames[static_cast<size_t>(compressor)];
}

size_t SnappyBytesMax(size_t decoded_bytes) {
  return snappy_max_compressed_length(decoded_bytes);
}

Result<size_t> CompressBloscStream(BloscCompressor compressor, int level,
                                   std::string_view in, std::span<char> out,
                                   CodecContext& context) {
  switch (compressor) {
    case BloscCompressor::kBlosclz:
      return CompressBlosclz(in, out);
    case BloscCompressor::kLz4:
      return SizeOfLz4(
          LZ4_compress_fast(in.data(), out.data(), static_cast<int>(in.size()),
                            static_cast<int>(out.size()), 10 - level));
    case BloscCompressor::kLz4hc:
      return CompressLz4hc(level, in, out, context);
    case BloscCompressor::kSnappy:
      return CompressSnappy(in, out);
    case BloscCompressor::kZlib:
      return CompressZlib(level, in, out);
    case BloscCompressor::kZstd:
      return CompressZstd(level, in, out, context);
  }
  return size_t{0};
}

Result<bool> DecompressBloscStream(BloscCompressor compressor,
                                   std::string_view in, std::span<char> out,
                                   CodecContext& context) {
  switch (compressor) {
    case BloscCompressor::kBlosclz:
      return DecompressBlosclz(in, out);
    case BloscCompressor::kLz4:
    case BloscCompressor::kLz4hc:
      return DecompressLz4(in, out);
    case BloscCompressor::kSnappy:
      return DecompressSnappy(in, out);
    case BloscCompressor::kZlib:
      return DecompressZlib(in, out);
    case BloscCompressor::kZstd:
      return DecompressZstd(in, out, context);
  }
  return false;
}

}  // namespace holdfast
