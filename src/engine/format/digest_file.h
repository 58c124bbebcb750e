// `_HOLDFAST_DIGESTS`: holdfast's own sidecar: by it the bytes of a checkpoint
// are known to be those that were saved there, whatever checksums the format
// itself has. Orbax ignores the file.
//
// Compact JSON on one line, no newline:
//   {"holdfast_digests":1,"files":[["_METADATA",1923,"89abcdef"],...],
//    "values":[["d/7a28",0,15141,"01234567"],...],
//    "nodes":[["d/03c1",0,911,"76543210"],...],
//    "block_bytes":65536,"blocks":[[0,"0123456789abcdef..."],...],
//    "tails":[[7,"00112233"],...],
//    "sources":[["m.safetensors",9176,1764201600000000000,"/models/m"],...],
//    "crc32c":"0badcafe"}
// A file row is path, bytes, CRC-32C of the whole file; a value row is path,
// offset, bytes, CRC-32C of that range. So is a node row, of a node of a
// database or of its manifest, but without the last four bytes: they are a CRC
// of their own, with which the CRC of any node is the same. `others` has the
// rows of what lies between values in files of another format: headers, texts.
// `blocks` has, for
// values of more than one block, the number of the value row and the CRC-32C of
// each block of `block_bytes` bytes, the last one shorter: what a part of the
// value is checked by. `tails` has the number of the value row and the last
// four bytes of the value, where these are a checksum that decoding checks
// everything before them against: together the two tell the value from any
// other, with no second pass over its bytes. `sources`, of a view,
// has the files of others that values lie in: path, bytes, the time of the last
// change in nanoseconds since 1970 (0: not known), and the place that was
// referred to. Members that are empty are left out; readers skip those they do
// not know, as release 0.1.0 does "nodes",
// "blocks" and "tails", and 0.2.0 "others". The last member is the CRC-32C of
// all text before the comma in front of it. Paths are relative to the directory
// that holds the sidecar. CRCs are eight lower-case hex digits. Thread-safety:
// pure functions. Units: bytes. Errors: DataLoss for a damaged sidecar;
// Unimplemented for a later version.
#pragma once

#include <cstdint>
#include <optional>
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

// The size of blocks unless a sidecar says otherwise.
inline constexpr uint64_t kDigestBlockBytes = 64 << 10;

enum class RowKind : uint8_t {
  kValue,
  kNode,   // of a database, or its manifest
  kOther,  // what lies between values
};

struct ValueDigest {
  std::string path;
  uint64_t offset = 0;
  uint64_t byte_count = 0;
  uint32_t crc32c = 0;
  std::vector<uint32_t> block_crcs;  // empty: only the whole can be checked
  // The last four bytes, little endian, where they are a checksum.
  std::optional<uint32_t> tail;
  RowKind kind = RowKind::kValue;

  bool is_node() const { return kind == RowKind::kNode; }
  friend bool operator==(const ValueDigest&, const ValueDigest&) = default;
};

// A file that a view refers to, and as what it was found. It belongs to
// somebody else, who may change it.
struct SourceFile {
  std::string path;
  uint64_t byte_count = 0;
  int64_t modified_ns = 0;
  std::string from;  // absolute path or URL

  friend bool operator==(const SourceFile&, const SourceFile&) = default;
};

struct DigestFile {
  std::vector<FileDigest> files;
  std::vector<ValueDigest> values;  // and nodes, and others
  uint64_t block_bytes = kDigestBlockBytes;
  std::vector<SourceFile> sources;
};

// Rows in the order given, nodes after values, others last. REQUIRES: paths in
// UTF-8.
std::string SerializeDigestFile(const DigestFile& digests);
// Checks the sidecar's own CRC before anything else.
Result<DigestFile> ParseDigestFile(std::string_view text);

}  // namespace holdfast
