// A checkpoint whose fingerprint of a tensor is that of other elements.
#pragma once

#include <string>

#include "engine/format/digest_file.h"
#include "engine/format/fingerprints_file.h"
#include "ground/base/crc32c.h"
#include "twins/scratch_directory.h"

namespace holdfast {

// Simulates bad memory: stores another fingerprint for "w" with valid
// checksums.
inline void ForgeFingerprint(const std::string& path) {
  const std::string file = path + "/" + std::string(kFingerprintsFile);
  const std::string list = path + "/_HOLDFAST_DIGESTS";
  FingerprintsFile forged = *ParseFingerprintsFile(ReadTestFile(file));
  forged.tensors.at("w") = std::string(32, '0');
  const std::string text = SerializeFingerprintsFile(forged);
  WriteTestFile(file, text);
  DigestFile digests = *ParseDigestFile(ReadTestFile(list));
  for (FileDigest& row : digests.files) {
    if (row.path == kFingerprintsFile) row.crc32c = Crc32c(text);
  }
  WriteTestFile(list, SerializeDigestFile(digests));
}

}  // namespace holdfast
