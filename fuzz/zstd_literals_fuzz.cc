// Frames of literals, which are decoded here without libzstd: if we accept a
// frame, libzstd accepts it and decodes it to the same bytes. The other way
// round, both decode a frame that we encode from any bytes to these bytes.
//
// Input: one byte, then a frame if the byte's lowest bit is 0, or bytes to
// encode if it is 1.
#include <zstd.h>

#include <string>
#include <vector>

#include "formats/codec/zstd_literals.h"
#include "fuzz_util.h"

namespace holdfast {
namespace {

constexpr uint64_t kContentBytesMax = 1 << 20;

void CheckFrame(std::string_view frame) {
  const auto info = InspectZstdFrame(frame);
  if (!info.ok() || !info->content_bytes ||
      *info->content_bytes > kContentBytesMax) {
    return;
  }
  HuffmanTables tables;
  std::vector<char> ours(*info->content_bytes);
  if (!DecodeLiteralFrame(frame, *info, ours, tables)) return;
  std::vector<char> theirs(ours.size());
  FUZZ_CHECK(ZSTD_decompress(theirs.data(), theirs.size(), frame.data(),
                             frame.size()) == theirs.size());
  FUZZ_CHECK(ours == theirs);
}

void CheckContent(std::string_view content) {
  std::string frame(StoredZstdFrameBytes(content.size(), true), '\0');
  frame.resize(WriteLiteralFrame(content, true, frame.data()));
  std::string theirs(content.size(), '\0');
  FUZZ_CHECK(ZSTD_decompress(theirs.data(), theirs.size(), frame.data(),
                             frame.size()) == content.size());
  FUZZ_CHECK(theirs == content);
  if (content.empty()) return;
  const auto info = InspectZstdFrame(frame);
  FUZZ_CHECK_OK(info);
  HuffmanTables tables;
  std::string ours(content.size(), '\0');
  FUZZ_CHECK(DecodeLiteralFrame(frame, *info, ours, tables));
  FUZZ_CHECK(ours == content);
}

}  // namespace
}  // namespace holdfast

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view text = holdfast::FuzzText(data + 1, size - 1);
  data[0] & 1 ? holdfast::CheckContent(text) : holdfast::CheckFrame(text);
  return 0;
}
