// The compressors inside a blosc container. They compress one stream per call,
// and report every allocation that fails as an error.
//
// Thread-safety: a CodecContext belongs to one thread. Ownership: arguments are
// borrowed. Units: bytes.
// Errors: ResourceExhausted when there is no memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "formats/codec/codec.h"

namespace holdfast {

enum class BloscCompressor : uint8_t {
  kBlosclz,
  kLz4,
  kLz4hc,
  kSnappy,
  kZlib,
  kZstd
};

std::optional<BloscCompressor> BloscCompressorNamed(std::string_view cname);

// Returns the compressor's number in the header. LZ4HC is written as LZ4.
uint8_t BloscFormatOf(BloscCompressor compressor);
std::optional<BloscCompressor> BloscCompressorOfFormat(uint8_t format);
std::string_view BloscFormatName(BloscCompressor compressor);

// Returns the output size that snappy requires.
size_t SnappyBytesMax(size_t decoded_bytes);

// Returns the number of bytes written, or 0 if they would not fit into `out`.
// `level` is blosc's level, 1 to 9.
Result<size_t> CompressBloscStream(BloscCompressor compressor, int level,
                                   std::string_view in, std::span<char> out,
                                   CodecContext& context);

// Returns whether `in` decodes to exactly out.size() bytes.
Result<bool> DecompressBloscStream(BloscCompressor compressor,
                                   std::string_view in, std::span<char> out,
                                   CodecContext& context);

}  // namespace holdfast
