// `_HOLDFAST_FINGERPRINTS`: the fingerprint of each array in an item, by
// parameter name. A fingerprint is a number computed from the array's elements
// in the stored dtype, independent of how they are divided
// (ground/fingerprint/sum.h). Orbax ignores the file; it is used only if
// `_HOLDFAST_DIGESTS` lists it.
//
// Compact JSON on one line, no newline:
//   {"holdfast_fingerprints":1,"algorithm":"holdfast-linear-1",
//    "tensors":{"params.w":"0123456789abcdef0123456789abcdef",...}}
// Thread-safety: pure functions.
// Errors: DataLoss for a damaged file; Unimplemented for a later version.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "engine/format/directory_names.h"
#include "ground/json/scanner.h"
#include "holdfast/status.h"

namespace holdfast {

// 32 lower-case hex digits by name.
using FingerprintTexts = std::map<std::string, std::string, std::less<>>;

// Write and read the fingerprints as a JSON object.
void AppendFingerprintTexts(std::string& out, const FingerprintTexts& texts);
Status ReadFingerprintTexts(JsonScanner& in, FingerprintTexts& texts);

struct FingerprintsFile {
  std::string algorithm;
  FingerprintTexts tensors;
};

// REQUIRES: names in UTF-8.
std::string SerializeFingerprintsFile(const FingerprintsFile& file);
Result<FingerprintsFile> ParseFingerprintsFile(std::string_view text);

}  // namespace holdfast
