// Encodes and decodes with chains of bytes->bytes codecs.
//
// Thread-safety: pure, except that it uses the context's `stages`.
// Ownership: inputs are borrowed. Units: bytes. Errors: those of the codecs.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "formats/codec/codec.h"

namespace holdfast {

using BytesCodecs = std::vector<std::shared_ptr<const BytesCodec>>;
using BytesCodecSpan = std::span<const std::shared_ptr<const BytesCodec>>;

// Encodes `in` with all codecs, first to last. The result owns its bytes and
// has `spare_bytes` unused bytes at the end of its storage. REQUIRES: at least
// one codec; `in` is not in the context's stages.
Result<EncodedChunk> EncodeBytesChain(BytesCodecSpan codecs,
                                      std::string_view in, size_t spare_bytes,
                                      CodecContext& context);

// Returns true if decoding only checks and cuts: there is no codec, or only
// crc32c.
bool DecodesInPlace(BytesCodecSpan codecs);

// Returns the decoded bytes as a slice of `in`. REQUIRES:
// DecodesInPlace(codecs). Errors: DataLoss unless the result has exactly
// `decoded_bytes` bytes.
Result<std::string_view> DecodeInPlace(BytesCodecSpan codecs,
                                       std::string_view in,
                                       size_t decoded_bytes,
                                       CodecContext& context);

// Like DecodeBytesChain, but decodes into `scratch`, which grows only once the
// encoded bytes justify it. Returns a slice of `scratch`, in which only
// `wanted` must be right. REQUIRES: scratch is not one of the context's stages.
Result<std::span<char>> DecodeToScratch(BytesCodecSpan codecs,
                                        std::string_view in,
                                        size_t decoded_bytes,
                                        DecodedRange wanted, Buffer& scratch,
                                        CodecContext& context);

}  // namespace holdfast
