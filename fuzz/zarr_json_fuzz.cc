// ParseV3: a parsed `zarr.json` has the same metadata after writing and
// parsing.
#include "zarr_metadata_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace zarr = holdfast::zarr;
  zarr::CheckParsed(zarr::ParseV3(holdfast::FuzzText(data, size)),
                    zarr::ParseV3);
  return 0;
}
