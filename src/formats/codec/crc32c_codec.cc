#include "formats/codec/crc32c_codec.h"

#include <cassert>
#include <cstdio>
#include <cstring>

#include "formats/codec/size_error.h"
#include "ground/base/coding.h"
#include "ground/base/crc32c.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

// Checks the digest and returns the bytes before it.
Result<std::string_view> CheckDigest(std::string_view in) {
  if (in.size() < Crc32cCodec::kDigestBytes) {
    return DecodedSizeError("crc32c", Crc32cCodec::kDigestBytes, in.size());
  }
  const size_t content_bytes = in.size() - Crc32cCodec::kDigestBytes;
  const std::string_view content = in.substr(0, content_bytes);
  const auto stored = LoadLittle<uint32_t>(in.data() + content_bytes);
  const uint32_t computed = Crc32c(content);
  if (stored == computed) return content;
  char message[96];
  std::snprintf(message, sizeof message,
                "Digest mismatch, stored digest is 0x%08x but computed digest "
                "is 0x%08x",
                stored, computed);
  return DataLossError(message);
}

}  // namespace

Result<size_t> Crc32cCodec::Encode(std::string_view in, std::span<char> out,
                                   CodecContext&) const {
  assert(out.size() >= EncodedBytesMax(in.size()));
  if (!in.empty()) std::memcpy(out.data(), in.data(), in.size());
  StoreLittle(out.data() + in.size(), Crc32c(in));
  return in.size() + kDigestBytes;
}

Status Crc32cCodec::Decode(std::string_view in, std::span<char> out,
                           CodecContext&) const {
  HF_ASSIGN_OR_RETURN(const std::string_view content, CheckDigest(in));
  if (content.size() != out.size()) {
    return DecodedSizeError("crc32c", out.size(), content.size());
  }
  if (!out.empty()) std::memcpy(out.data(), content.data(), out.size());
  return Status();
}

Result<Bytes> Crc32cCodec::DecodeBounded(std::string_view in,
                                         size_t decoded_bytes_max,
                                         CodecContext&) const {
  HF_ASSIGN_OR_RETURN(const std::string_view content, CheckDigest(in));
  if (content.size() > decoded_bytes_max) {
    return DecodedSizeError("crc32c", decoded_bytes_max, content.size());
  }
  return Bytes(nullptr, content);
}

void AppendCrc32cPiece(size_t storage_offset, EncodedChunk& chunk) {
  assert(storage_offset + Crc32cCodec::kDigestBytes <= chunk.storage.size());
  uint32_t digest = Crc32c({});
  for (std::string_view piece : chunk.pieces) {
    digest = ExtendCrc32c(digest, piece);
  }
  char* const target = chunk.storage.data() + storage_offset;
  StoreLittle(target, digest);
  chunk.pieces.emplace_back(target, Crc32cCodec::kDigestBytes);
  chunk.byte_count += Crc32cCodec::kDigestBytes;
}

}  // namespace holdfast
