// ParseShardingFile: a parsed `_sharding` is still equal after writing and
// parsing.
#include "engine/format/sharding_file.h"
#include "fuzz_util.h"
#include "ground/base/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = holdfast::FuzzText(data, size);
  if (const auto bytes = holdfast::UrlSafeBase64Decode(input)) {
    FUZZ_CHECK(holdfast::UrlSafeBase64(*bytes) == input);
  }
  const auto shardings = holdfast::ParseShardingFile(input);
  if (!shardings.ok()) return 0;
  const std::string text = holdfast::SerializeShardingFile(*shardings);
  const auto again = holdfast::ParseShardingFile(text);
  FUZZ_CHECK_OK(again);
  FUZZ_CHECK(*again == *shardings);
  return 0;
}
