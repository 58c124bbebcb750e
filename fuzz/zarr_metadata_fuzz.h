// Checks properties that zarr metadata must have once they are parsed.
#pragma once

#include "formats/zarr/format/metadata.h"
#include "fuzz_util.h"

namespace holdfast::zarr {

// Checks that metadata that parse are legal, and that their own text parses to
// the same metadata.
template <typename Parse>
void CheckParsed(const Result<ArrayMetadata>& metadata, const Parse& parse) {
  if (!metadata.ok()) return;
  FUZZ_CHECK_OK(CheckMetadata(*metadata));
  const auto text = SerializeMetadata(*metadata);
  FUZZ_CHECK_OK(text);
  const Result<ArrayMetadata> again = parse(*text);
  FUZZ_CHECK_OK(again);
  FUZZ_CHECK(*again == *metadata);
  FUZZ_CHECK(*SerializeMetadata(*again) == *text);
}

}  // namespace holdfast::zarr
