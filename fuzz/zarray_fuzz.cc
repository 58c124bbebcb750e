// ParseV2: a parsed `.zarray` has the same metadata after writing and parsing.
#include "zarr_metadata_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace zarr = holdfast::zarr;
  zarr::CheckParsed(zarr::ParseV2(holdfast::FuzzText(data, size)),
                    zarr::ParseV2);
  return 0;
}
