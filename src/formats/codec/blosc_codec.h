// The blosc codec: one chunk is one blosc 1.x container, which names its own
// compressor, shuffle and sizes in a 16-byte header.
//
// This code writes and reads containers itself rather than call c-blosc, which
// does not check whether it got the memory that it asks for. Its bytes equal
// c-blosc's, except for blosclz and planes (blosc_planes.h).
// Thread-safety: immutable. Ownership: inputs are borrowed. Units: bytes.
// Errors: DataLoss for a container that is damaged or decodes to another size;
// InvalidArgument for chunks above 2 GiB, which the format cannot hold;
// ResourceExhausted when there is not enough memory.
#pragma once

#include "formats/codec/codec.h"

namespace holdfast {

// blosclz, lz4, lz4hc, snappy, zlib or zstd.
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
