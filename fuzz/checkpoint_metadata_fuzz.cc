// ParseCheckpointMetadata and ParseRootMetadata: if metadata parse, the text
// written for them also parses, and writing that again gives the same text.
#include "engine/format/checkpoint_metadata.h"
#include "fuzz_util.h"

namespace {

template <typename Parse, typename Serialize>
void Check(std::string_view input, const Parse& parse,
           const Serialize& serialize) {
  const auto metadata = parse(input);
  if (!metadata.ok()) return;
  const std::string text = serialize(*metadata);
  const auto again = parse(text);
  FUZZ_CHECK_OK(again);
  FUZZ_CHECK(serialize(*again) == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = holdfast::FuzzText(data, size);
  Check(text, holdfast::ParseCheckpointMetadata,
        holdfast::SerializeCheckpointMetadata);
  Check(text, holdfast::ParseRootMetadata, holdfast::SerializeRootMetadata);
  return 0;
}
