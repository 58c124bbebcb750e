// Fields that a client may send to the server: targets, ranges, lists of tags.
// An accepted range is inside the file. A part of a path is still the same
// after encoding and decoding.
#include "fuzz_util.h"
#include "tools/serve/http_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace holdfast;
  const std::string text(FuzzText(data, size));
  for (const uint64_t byte_count :
       {uint64_t{0}, uint64_t{1}, uint64_t{1000}, ~uint64_t{0}}) {
    ServedRange range;
    if (ParseRange(text, byte_count, range) != RangeKind::kPart) continue;
    FUZZ_CHECK(range.byte_count > 0 && range.offset < byte_count &&
               range.byte_count <= byte_count - range.offset);
  }
  const auto target = ParseTarget(text);
  if (target) {
    FUZZ_CHECK(target->path.starts_with('/') &&
               target->path.find('\0') == std::string::npos);
  }
  const std::string encoded = EncodePart(text);
  FUZZ_CHECK(encoded.find_first_of("/?#\"<>& \n") == std::string::npos);
  const auto again = ParseTarget("/" + encoded);
  FUZZ_CHECK(again.has_value() == (text.find('\0') == std::string::npos));
  if (again) FUZZ_CHECK(again->path == "/" + text);
  FUZZ_CHECK(EscapeHtml(text).find_first_of("<>\"'") == std::string::npos);
  HasTag(text, "\"tag\"", true);
  return 0;
}
