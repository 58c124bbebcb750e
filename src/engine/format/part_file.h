// `_HOLDFAST_PART_<rank>`: the description that each of several processes
// leaves for the process that combines their parts into a checkpoint. Removed
// after that.
//
// Three lines: a JSON object {"holdfast_part":1,"rank":3,"is_primary":false,
// "save_id":"...","database":"ocdbt.process_3/","manifest_checksum":1234,
// "leaf_count":12,"leaf_checksums":"...","fingerprints":{"w":"..."}}, the text
// of a DigestFile for everything that the process wrote, and the CRC-32C of
// these two lines (with their newlines) in eight hex digits.
// Thread-safety: pure functions.
// Errors: DataLoss for a damaged file; Unimplemented for a later version.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/format/digest_file.h"
#include "engine/format/fingerprints_file.h"
#include "holdfast/status.h"

namespace holdfast {

// Describes how leaves are to be stored, by one CRC-32C for each of many
// buckets. The bucket of a leaf is derived from its name. Equal plans have
// equal checksums. If two plans differ, the differing buckets show which leaves
// may be affected.
inline constexpr size_t kLeafBucketCount = 256;
struct PlanChecksums {
  uint64_t leaf_count = 0;
  std::array<uint32_t, kLeafBucketCount> buckets{};

  bool operator==(const PlanChecksums&) const = default;
};

struct PartFile {
  int64_t rank = 0;
  bool is_primary = false;
  std::string save_id;
  std::string database;  // "ocdbt.process_3/"; empty: no database was written
  uint32_t manifest_checksum = 0;  // ManifestChecksum of its manifest
  PlanChecksums plan;
  // With SaveOptions::fingerprints: sums over the data that this process wrote.
  // The sums of all processes are added up.
  std::optional<FingerprintTexts> fingerprints;
  DigestFile digests;
};

// Returns the CRC-32C of all but the last four bytes, which distinguishes
// manifests. The last four bytes are a CRC themselves, so the CRC of a complete
// manifest is the same for every manifest.
uint32_t ManifestChecksum(std::string_view manifest);

std::string SerializePartFile(const PartFile& part);
Result<PartFile> ParsePartFile(std::string_view text);

// Returns "_HOLDFAST_PART_3" for rank 3.
std::string PartFileName(int64_t rank);

}  // namespace holdfast
