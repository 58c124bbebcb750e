// Computes the checksums by which `_HOLDFAST_DIGESTS` identifies stored bytes,
// while the bytes pass through.
//
// Thread-safety: one thread per object; pure functions. Units: bytes.
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

// How a value is identified, in addition to the CRC of all its bytes.
enum class ValueKnownBy : uint8_t {
  kBlocks,    // by the CRCs of its blocks, since readers may read parts
  kZstdEnd,   // by its end, which is the checksum of a zstd frame
  kCrc32cEnd  // by its end, a CRC-32C: the CRC of all bytes is a constant
};

class ValueSums {
 public:
  explicit ValueSums(ValueKnownBy known_by) : known_by_(known_by) {}

  // Adds the next bytes of the value.
  void Add(std::string_view bytes);
  // Returns a row that covers all added bytes; the caller sets path and offset.
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

// Returns the row for `bytes` at `offset` in a file.
ValueDigest SumValue(std::string path, uint64_t offset, std::string_view bytes,
                     ValueKnownBy known_by);

// Adds the rows for a manifest: a file row, and a row like a node's. Manifests
// and nodes of a database end in a CRC of their own, so the CRC of all their
// bytes is the same for every one. Such a row therefore has the CRC of all but
// the last four bytes.
Status AddManifestRows(Store& store, const std::string& path,
                       DigestFile& digests);
// Adds rows for the nodes that a write into the directory of `digests` created.
void AddNodeRows(const ocdbt::BulkWriteSummary& summary, DigestFile& digests);

}  // namespace holdfast
