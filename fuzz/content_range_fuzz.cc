// ParseContentRange: an accepted range is inside the object and, written out,
// equals the input except for leading zeros.
#include <string>

#include "fuzz_util.h"
#include "stores/cloud/content_range.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = holdfast::FuzzText(data, size);
  const auto range = holdfast::ParseContentRange(input);
  const auto total = holdfast::ParseUnsatisfiedRange(input);
  FUZZ_CHECK(!range || !total);
  if (!range) return 0;
  FUZZ_CHECK(range->byte_count > 0);
  FUZZ_CHECK(range->offset < range->total_bytes);
  FUZZ_CHECK(range->byte_count <= range->total_bytes - range->offset);
  const std::string written =
      "bytes " + std::to_string(range->offset) + "-" +
      std::to_string(range->offset + range->byte_count - 1) + "/" +
      std::to_string(range->total_bytes);
  FUZZ_CHECK(written.size() <= input.size());
  FUZZ_CHECK(holdfast::ParseContentRange(written).has_value());
  return 0;
}
