// The checksums by which `_HOLDFAST_DIGESTS` knows stored bytes again, made
// while the bytes pass.
//
// Thread-safety: one thread an object; pure functions. Units: bytes.
// Errors: those of the store.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/format/digest_file.h"
#include "formats/ocdbt/commit.h"
#include "holdfast/status.h"
#include "stores/storage/store.h"

namespace holdfast {

// The facts by which a reader knows a value, beside the CRC of all of it.
enum class ValueKnownBy : uint8_t {
  kBlocks,    // the CRCs of its blocks: parts of it are read
  kZstdEnd,   // its end: the checksum of a zstd frame
  kCrc32cEnd  // its end: a CRC-32C, which makes the CRC of the whole a constant
};

class ValueSums {
 public:
  explicit ValueSums(ValueKnownBy known_by) : known_by_(known_by) {}

  // The next bytes of the value.
  void Add(std::string_view bytes);
  // Covers all bytes added; the caller fills in the row's path and offset.
  ValueDigest Finish();

 private:
  void AddToBlocks(std::string_view bytes);
  void EndBlock();

  const ValueKnownBy known_by_;
  ValueDigest row_;
  uint32_t block_crc_ = 0;
  uint64_t in_block_bytes_ = 0;
  uint32_t end_ = 0;  // the last four bytes
};

// The row of `bytes` that lie at `offset` of a file.
ValueDigest SumValue(std::string path, uint64_t offset, std::string_view bytes,
                     ValueKnownBy known_by);

// The rows of a manifest and of a node of a database. These end in a CRC of
// their own, so that the CRC of all of it would be the same for all: the row of
// a node has that of all but the last four bytes, and a manifest has one, too.
Status AddManifestRows(Store& store, const std::string& path,
                       DigestFile& digests);
// Adds rows for the nodes that a write into the directory of `digests` made.
void AddNodeRows(const ocdbt::BulkWriteSummary& summary, DigestFile& digests);

}  // namespace holdfast
