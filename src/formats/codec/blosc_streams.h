// The compressors inside a blosc container, by their one-shot functions: one
// stream at a time, and no allocation that cannot fail in words.
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

// As the header has it; LZ4HC writes LZ4's.
uint8_t BloscFormatOf(BloscCompressor compressor);
std::optional<BloscCompressor> BloscCompressorOfFormat(uint8_t format);
std::string_view BloscFormatName(BloscCompressor compressor);

// The room that snappy insists on.
size_t SnappyBytesMax(size_t decoded_bytes);

// The bytes written; 0 when they would not fit into `out`. `level` is blosc's,
// 1 to 9.
Result<size_t> CompressBloscStream(BloscCompressor compressor, int level,
                                   std::string_view in, std::span<char> out,
                                   CodecContext& context);

// Whether `in` decodes to exactly out.size() bytes.
Result<bool> DecompressBloscStream(BloscCompressor compressor,
                                   std::string_view in, std::span<char> out,
                                   CodecContext& context);

}  // namespace holdfast
