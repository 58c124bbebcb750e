// `_HOLDFAST_DIGESTS`: holdfast's own sidecar with checksums. It proves that
// the bytes of a checkpoint are those that were saved, whatever checksums the
// format itself has. Orbax ignores the file.
//
// Compact JSON on one line, no newline:
//   {"holdfast_digests":1,"files":[["_METADATA",1923,"89abcdef"],...],
//    "values":[["d/7a28",0,15141,"01234567"],...],
//    "nodes":[["d/03c1",0,911,"76543210"],...],
//    "block_bytes":65536,"blocks":[[0,"0123456789abcdef..."],...],
//    "tails":[[7,"00112233"],...],
//    "sources":[["m.safetensors",9176,1764201600000000000,"/models/m"],...],
//    "floats":["0123456789abcdef",812,13200000000],
//    "crc32c":"0badcafe"}
// A file row is path, bytes, CRC-32C of the complete file; a value row is path,
// offset, bytes, CRC-32C of that range. A node row has the same form, for a
// node of a database or for its manifest, but its CRC leaves out the last four
// bytes: they are a CRC themselves, so the CRC including them would be the same
// for every node. `others` has rows for the ranges between values in files of
// another format: headers and texts.
//
// `blocks` has, for each value of more than one block, the index of the value
// row and the CRC-32C of each block of `block_bytes` bytes (the last one may be
// shorter), with which parts of the value are checked. `tails` has the index of
// the value row and the last four bytes of the value, if these are a checksum
// that decoding checks against everything before them: both checks together
// distinguish the value from any other, without a second pass over its bytes.
// `sources`, in a view, has a row for each file outside the view that holds its
// values: path, bytes, modification time in nanoseconds since 1970 (0: not
// known), and the path that was referred to. `floats` describes the
// floating-point arrays of the item, or of all items of the checkpoint: a hash,
// the number of arrays, and their bytes in memory.
//
// Empty members are left out; readers skip unknown members, as release 0.1.0
// skips "nodes", "blocks" and "tails", and 0.2.0 "others". The last member is
// the CRC-32C of all text before the comma that precedes it. Paths are relative
// to the directory with the sidecar. CRCs are eight lower-case hex digits.
// Thread-safety: pure functions. Units: bytes.
// Errors: DataLoss for a damaged sidecar; Unimplemented for a later version.
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

// The block size unless a sidecar specifies another.
inline constexpr uint64_t kDigestBlockBytes = 64 << 10;

enum class RowKind : uint8_t {
  kValue,
  kNode,   // a node of a database, or its manifest
  kOther,  // a range between values
};

struct ValueDigest {
  std::string path;
  uint64_t offset = 0;
  uint64_t byte_count = 0;
  uint32_t crc32c = 0;
  std::vector<uint32_t> block_crcs;  // empty: checked only as a whole
  // The last four bytes, little endian, if they are a checksum.
  std::optional<uint32_t> tail;
  RowKind kind = RowKind::kValue;

  bool is_node() const { return kind == RowKind::kNode; }
  friend bool operator==(const ValueDigest&, const ValueDigest&) = default;
};

// A file that a view refers to, with its state when the view was made. It
// belongs to others, who may change it.
struct SourceFile {
  std::string path;
  uint64_t byte_count = 0;
  int64_t modified_ns = 0;
  std::string from;  // absolute path or URL

  friend bool operator==(const SourceFile&, const SourceFile&) = default;
};

// The floating-point arrays of a save: those with at least one axis and two
// elements. If two saves have equal values, their arrays are the same, bit for
// bit, and have the same names. Equal arrays have equal values only if they
// were saved with equal options.
struct FloatArrays {
  uint64_t hash = 0;  // a sum over arrays and chunks, so that parts add up
  uint64_t array_count = 0;
  uint64_t byte_count = 0;  // decoded

  FloatArrays& operator+=(const FloatArrays& other);
  friend bool operator==(const FloatArrays&, const FloatArrays&) = default;
};

struct DigestFile {
  std::vector<FileDigest> files;
  std::vector<ValueDigest> values;  // including nodes and others
  uint64_t block_bytes = kDigestBlockBytes;
  std::vector<SourceFile> sources;
  std::optional<FloatArrays> floats;  // nullopt: not known
};

// Returns the sidecar's text. Keeps the order of the rows, with nodes after
// values and others last.
// REQUIRES: paths in UTF-8.
std::string SerializeDigestFile(const DigestFile& digests);
// Checks the sidecar's own CRC before anything else.
Result<DigestFile> ParseDigestFile(std::string_view text);

}  // namespace holdfast
