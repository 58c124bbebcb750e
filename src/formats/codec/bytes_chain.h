// Runs of bytes->bytes codecs, in one direction or the other.
//
// Thread-safety: pure but for the context, whose `stages` are used.
// Ownership: inputs are borrowed. Units: bytes. Errors: as the codecs.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "formats/codec/codec.h"

namespace holdfast {

using BytesCodecs = std::vector<std::shared_ptr<const BytesCodec>>;
using BytesCodecSpan = std::span<const std::shared_ptr<const BytesCodec>>;

// Encodes `in` by all codecs, first to last. The result owns its bytes and has
// `spare_bytes` unused ones at the end of its storage.
// REQUIRES: at least one codec; `in` does not lie in context's stages.
Result<EncodedChunk> EncodeBytesChain(BytesCodecSpan codecs,
                                      std::string_view in, size_t spare_bytes,
                                      CodecContext& context);

// True when decoding only checks and cuts: no codec, or nothing but crc32c.
bool DecodesInPlace(BytesCodecSpan codecs);

// The decoded bytes as a slice of `in`. REQUIRES: DecodesInPlace(codecs).
// DataLoss unless there are exactly `decoded_bytes` of them.
Result<std::string_view> DecodeInPlace(BytesCodecSpan codecs,
                                       std::string_view in,
                                       size_t decoded_bytes,
                                       CodecContext& context);

// As DecodeBytesChain, into `scratch`, which grows only once the encoded bytes
// justify it. Only `wanted` needs to be right in the result, the slice of
// scratch.
// REQUIRES: scratch is not one of context's stages.
Result<std::span<char>> DecodeToScratch(BytesCodecSpan codecs,
                                        std::string_view in,
                                        size_t decoded_bytes,
                                        DecodedRange wanted, Buffer& scratch,
                                        CodecContext& context);

}  // namespace holdfast
