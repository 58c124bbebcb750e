// ParseArrayMetadatas: if metadata parse, the text written for them also
// parses, and writing that again gives the same text.
#include "engine/format/array_metadatas.h"
#include "fuzz_util.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto records =
      holdfast::ParseArrayMetadatas(holdfast::FuzzText(data, size));
  if (!records.ok()) return 0;
  const std::string text = holdfast::SerializeArrayMetadatas(*records);
  const auto again = holdfast::ParseArrayMetadatas(text);
  FUZZ_CHECK_OK(again);
  FUZZ_CHECK(again->size() == records->size());
  for (size_t i = 0; i < records->size(); ++i) {
    FUZZ_CHECK((*again)[i].param_name == (*records)[i].param_name);
    FUZZ_CHECK((*again)[i].write_shape == (*records)[i].write_shape);
    FUZZ_CHECK((*again)[i].chunk_shape == (*records)[i].chunk_shape);
  }
  FUZZ_CHECK(holdfast::SerializeArrayMetadatas(*again) == text);
  return 0;
}
