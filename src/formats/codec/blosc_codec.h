// The blosc codec: one chunk is one blosc 1.x container, whose 16-byte header
// names its compressor, shuffle and sizes.
//
// This code writes and reads containers itself instead of calling c-blosc,
// which does not check whether it got the memory that it requested. Its bytes
// equal c-blosc's, except for blosclz and planes (blosc_planes.h).
// Thread-safety: immutable. Ownership: inputs are borrowed. Units: bytes.
// Errors: DataLoss for a container that is damaged or decodes to another size;
// InvalidArgument for chunks above 2 GiB, which the format cannot hold;
// ResourceExhausted when there is not enough memory.
#pragma once

#include "formats/codec/codec.h"

namespace holdfast {

// Returns true for blosclz, lz4, lz4hc, snappy, zlib and zstd.
bool IsBloscCompressorName(std::string_view cname);

class BloscCodec : public BytesCodec {
 public:
  // REQUIRES: parameters are within their ranges. item_bytes replaces typesize
  // 0.
  BloscCodec(const BloscParams& params, size_t item_bytes);

  std::string_view name() const override { return "blosc"; }
  size_t EncodedBytesMax(size_t decoded_bytes) const override;
  uint64_t DecodedBytesMax(std::string_view in) const override;
  Result<size_t> Encode(std::string_view in, std::span<char> out,
                        CodecContext& context) const override;
  Status Decode(std::string_view in, std::span<char> out,
                CodecContext& context) const override;
  Status DecodeRange(std::string_view in, std::span<char> out,
                     DecodedRange wanted, CodecContext& context) const override;
  Result<Bytes> DecodeBounded(std::string_view in, size_t decoded_bytes_max,
                              CodecContext& context) const override;

 private:
  BloscParams params_;  // shuffle and typesize resolved
};

}  // namespace holdfast
