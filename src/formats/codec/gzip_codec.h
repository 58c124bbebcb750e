// The gzip and zlib codecs: one chunk is one gzip member (RFC 1952) or one zlib
// stream (RFC 1950).
//
// Thread-safety: immutable. Ownership: inputs are borrowed. Units: bytes.
// Errors: DataLoss for a stream that is damaged, truncated, followed by other
// bytes, or of another size; ResourceExhausted when memory is short.
#pragma once

#include "formats/codec/codec.h"

namespace holdfast {

class GzipCodec : public BytesCodec {
 public:
  explicit GzipCodec(const GzipParams& params) : params_(params) {}

  std::string_view name() const override {
    return params_.zlib_header ? "zlib" : "gzip";
  }
  size_t EncodedBytesMax(size_t decoded_bytes) const override;
  uint64_t DecodedBytesMax(std::string_view in) const override;
  Result<size_t> Encode(std::string_view in, std::span<char> out,
                        CodecContext& context) const override;
  Status Decode(std::string_view in, std::span<char> out,
                CodecContext& context) const override;
  Result<Bytes> DecodeBounded(std::string_view in, size_t decoded_bytes_max,
                              CodecContext& context) const override;

 private:
  Status DataError(std::string_view what) const;
  Result<size_t> Inflate(std::string_view in, std::span<char> out) const;

  GzipParams params_;
};

}  // namespace holdfast
