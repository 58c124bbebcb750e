// ReadPickle: if a pickle can be read, its canonical JSON stays the same after
// the value is written and read.
#include "formats/pickle/torch_writer.h"
#include "fuzz_util.h"
#include "holdfast/tools/torch_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto value = holdfast::ReadPickle(holdfast::FuzzText(data, size));
  if (!value.ok()) {
    FUZZ_CHECK(!value.status().message().empty());
    return 0;
  }
  const std::string json = holdfast::PickleValueToJson(*value);
  const auto text = holdfast::pickle::PickleOf(*value);
  FUZZ_CHECK_OK(text);
  const auto again = holdfast::ReadPickle(*text);
  FUZZ_CHECK_OK(again);
  FUZZ_CHECK(holdfast::PickleValueToJson(*again) == json);
  return 0;
}
