// The crc32c codec: the bytes, then their CRC-32C (not masked) as 4
// little-endian bytes.
//
// Thread-safety: immutable. Ownership: inputs are borrowed, and DecodeBounded
// returns a slice of its input. Units: bytes.
// Errors: DataLoss for a mismatch or fewer than 4 bytes.
#pragma once

#include "formats/codec/codec.h"

namespace holdfast {

class Crc32cCodec : public BytesCodec {
 public:
  static constexpr size_t kDigestBytes = 4;

  std::string_view name() const override { return "crc32c"; }
  size_t EncodedBytesMax(size_t decoded_bytes) const override {
    return decoded_bytes + kDigestBytes;
  }
  uint64_t DecodedBytesMax(std::string_view in) const override {
    return in.size();
  }
  Result<size_t> Encode(std::string_view in, std::span<char> out,
                        CodecContext& context) const override;
  Status Decode(std::string_view in, std::span<char> out,
                CodecContext& context) const override;
  Result<Bytes> DecodeBounded(std::string_view in, size_t decoded_bytes_max,
                              CodecContext& context) const override;
};

// Appends the digest of chunk.pieces as one more piece, stored at the end of
// chunk.storage. Gives the same bytes as Encode, without copying. REQUIRES: no
// piece uses the 4 bytes of storage at `storage_offset`.
void AppendCrc32cPiece(size_t storage_offset, EncodedChunk& chunk);

}  // namespace holdfast
