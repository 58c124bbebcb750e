// `_HOLDFAST_DIGESTS`: holdfast's own sidecar of checksums, for bytes that no
// checksum of the format protects. Orbax ignores the file.
//
// Compact JSON on one line, no newline:
//   {"holdfast_digests":1,"files":[["_METADATA",1923,"89abcdef"],...],
//    "values":[["d/7a28",0,15141,"01234567"],...],"crc32c":"0badcafe"}
// A file row is path, bytes, CRC-32C of the whole file; a value row is path,
// offset, bytes, CRC-32C of that range. The last member is the CRC-32C of all
// text before the comma in front of it. Paths are relative to the directory
// that holds the sidecar. CRCs are eight lower-case hex digits.
// Thread-safety: pure functions. Units: bytes.
// Errors: DataLoss for a damaged sidecar; Unimplemented for a later version.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

struct FileDigest {
  std::string path;
  uint64_t byte_count = 0;
  uint32_t crc32c = 0;

  friend bool operator==(const FileDigest&, const FileDigest&) = default;
};

struct ValueDigest {
  std::string path;
  uint64_t offset = 0;
  uint64_t byte_count = 0;
  uint32_t crc32c = 0;

  friend bool operator==(const ValueDigest&, const ValueDigest&) = default;
};

struct DigestFile {
  std::vector<FileDigest> files;
  std::vector<ValueDigest> values;
};

// Rows in the order given. REQUIRES: paths in UTF-8.
std::string SerializeDigestFile(const DigestFile& digests);
// Checks the sidecar's own CRC before anything else.
Result<DigestFile> ParseDigestFile(std::string_view text);

}  // namespace holdfast
