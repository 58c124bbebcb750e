// Compares the decoder of blosc containers with c-blosc: a container that we
// decode is decoded by c-blosc to the same bytes. The other way round, both
// decode the planes that we encode from any bytes to these bytes.
//
// Input: one byte, then a container or bytes to encode. The lowest bit of the
// first byte is 0 for a container, whose encoded size is corrected. If it is 1,
// the upper five bits are the item size minus 1.
#include <blosc.h>

#include <string>
#include <vector>

#include "formats/codec/blosc_header.h"
#include "formats/codec/codec.h"
#include "fuzz_util.h"

namespace holdfast {
namespace {

constexpr size_t kDecodedBytesMax = 1 << 20;

bool DecodesByCBlosc(std::string_view container, std::span<char> out) {
  return blosc_decompress_ctx(container.data(), out.data(), out.size(), 1) ==
         static_cast<int>(out.size());
}

void CheckContainer(std::string_view given) {
  if (given.size() < kBloscHeaderBytes) return;
  std::string container(given);
  StoreBloscWord(container.size(), container.data() + 12);
  const size_t decoded_bytes = BloscWord(container, 4);
  if (decoded_bytes == 0 || decoded_bytes > kDecodedBytesMax) return;
  const auto codec = MakeBytesCodec(BloscParams{}, 1);
  FUZZ_CHECK_OK(codec);
  CodecContext context;
  std::vector<char> ours(decoded_bytes);
  const bool is_decoded = (*codec)->Decode(container, ours, context).ok();
  // Checksums that nothing compares must not change what is decoded.
  CodecContext knowing_context;
  knowing_context.set_bytes_are_known(true);
  std::vector<char> known(decoded_bytes);
  const Status status = (*codec)->Decode(container, known, knowing_context);
  if (!is_decoded) return;
  FUZZ_CHECK_OK(status);
  FUZZ_CHECK(known == ours);
  std::vector<char> theirs(decoded_bytes);
  FUZZ_CHECK(DecodesByCBlosc(container, theirs));
  FUZZ_CHECK(ours == theirs);
}

void CheckContent(std::string_view content, size_t item_bytes) {
  const auto codec = MakeBytesCodec(
      BloscParams{"zstd", 1, 1, 0, item_bytes, true}, item_bytes);
  FUZZ_CHECK_OK(codec);
  CodecContext context;
  std::vector<char> encoded((*codec)->EncodedBytesMax(content.size()));
  const auto size = (*codec)->Encode(content, encoded, context);
  FUZZ_CHECK_OK(size);
  const std::string_view container(encoded.data(), *size);
  std::vector<char> ours(content.size());
  FUZZ_CHECK_OK((*codec)->Decode(container, ours, context));
  FUZZ_CHECK(std::string_view(ours.data(), ours.size()) == content);
  std::vector<char> theirs(content.size());
  FUZZ_CHECK(content.empty() || DecodesByCBlosc(container, theirs));
  FUZZ_CHECK(theirs == ours);
}

}  // namespace
}  // namespace holdfast

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view text = holdfast::FuzzText(data + 1, size - 1);
  if (data[0] & 1) {
    holdfast::CheckContent(text, 1 + data[0] / 8);
  } else {
    holdfast::CheckContainer(text);
  }
  return 0;
}
