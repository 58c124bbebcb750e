// ParseStringsFile: a parsed `_strings.json` has the same names and texts after
// writing and parsing.
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
