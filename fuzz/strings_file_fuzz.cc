// ParseStringsFile: `_strings.json` that parses is written and parsed to the
// same names and texts.
#include "engine/format/strings_file.h"
#include "fuzz_util.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto strings =
      holdfast::ParseStringsFile(holdfast::FuzzText(data, size));
  if (!strings.ok()) return 0;
  const auto text = holdfast::SerializeStringsFile(*strings);
  FUZZ_CHECK_OK(text);
  const auto again = holdfast::ParseStringsFile(*text);
  FUZZ_CHECK_OK(again);
  FUZZ_CHECK(*again == *strings);
  return 0;
}
