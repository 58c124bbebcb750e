// The bytes codecs: decoding arbitrary bytes stays within the given output, and
// all decoding functions agree. The decoded content is still the same after
// encoding and decoding.
//
// Input: one byte for the codec, two for the size of the output, the stream.
#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "formats/codec/codec.h"
#include "fuzz_util.h"

namespace holdfast {
namespace {

constexpr size_t kHeaderBytes = 3;
constexpr size_t kItemBytes = 4;

BytesCodecParams ParamsOf(uint8_t choice) {
  switch (choice % 6) {
    case 0:
      return ZstdParams{};
    case 1:
      return BloscParams{};
    case 2:
      return BloscParams{.cname = "zstd", .shuffle = 2};
    case 3:
      return GzipParams{};
    case 4:
      return GzipParams{.zlib_header = true};
    default:
      return Crc32cParams{};
  }
}

void CheckBounded(const BytesCodec& codec, std::string_view in,
                  std::string_view want, CodecContext& context) {
  const auto bounded = codec.DecodeBounded(in, want.size(), context);
  FUZZ_CHECK_OK(bounded);
  FUZZ_CHECK(bounded->view() == want);
}

void CheckRoundTrip(const BytesCodec& codec, std::string_view decoded,
                    CodecContext& context) {
  std::vector<char> encoded(codec.EncodedBytesMax(decoded.size()));
  const auto encoded_bytes = codec.Encode(decoded, encoded, context);
  FUZZ_CHECK_OK(encoded_bytes);
  FUZZ_CHECK(*encoded_bytes <= encoded.size());
  std::vector<char> again(decoded.size());
  FUZZ_CHECK_OK(codec.Decode({encoded.data(), *encoded_bytes}, again, context));
  FUZZ_CHECK(std::string_view(again.data(), again.size()) == decoded);
}

void CheckStream(const BytesCodec& codec, std::string_view in,
                 size_t decoded_bytes) {
  CodecContext context;
  // A new allocation of exactly this size, so that a sanitizer detects
  // overruns.
  std::vector<char> out(decoded_bytes);
  const std::string_view decoded(out.data(), out.size());
  const Status status = codec.Decode(in, out, context);
  const auto bounded = codec.DecodeBounded(in, decoded_bytes, context);
  if (bounded.ok()) FUZZ_CHECK(bounded->size() <= decoded_bytes);
  if (!status.ok()) return;
  FUZZ_CHECK(codec.DecodedBytesMax(in) >= decoded_bytes);
  CheckBounded(codec, in, decoded, context);
  CheckRoundTrip(codec, decoded, context);
}

}  // namespace
}  // namespace holdfast

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace holdfast;
  if (size < kHeaderBytes) return 0;
  const auto codec = MakeBytesCodec(ParamsOf(data[0]), kItemBytes);
  FUZZ_CHECK_OK(codec);
  const size_t decoded_bytes = data[1] + (size_t{data[2]} << 8);
  CheckStream(**codec, FuzzText(data + kHeaderBytes, size - kHeaderBytes),
              decoded_bytes);
  return 0;
}
