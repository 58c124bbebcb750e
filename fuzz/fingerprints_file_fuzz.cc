// ParseFingerprintsFile: a parsed sidecar has the same fingerprints after
// writing and parsing.
#include "engine/format/fingerprints_file.h"
#include "fuzz_util.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file =
      holdfast::ParseFingerprintsFile(holdfast::FuzzText(data, size));
  if (!file.ok()) return 0;
  const auto again = holdfast::ParseFingerprintsFile(
      holdfast::SerializeFingerprintsFile(*file));
  FUZZ_CHECK_OK(again);
  FUZZ_CHECK(again->algorithm == file->algorithm);
  FUZZ_CHECK(again->tensors == file->tensors);
  return 0;
}
