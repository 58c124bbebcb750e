#include "engine/check/value_sums.h"

#include <algorithm>

#include "engine/format/part_file.h"
#include "ground/base/crc32c.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

// Reading all of a smaller value costs less than a row for its end in the
// sidecar.
constexpr uint64_t kZstdEndBytesMin = 64 << 10;

}  // namespace

void ValueSums::Add(std::string_view bytes) {
  row_.byte_count += bytes.size();
  if (known_by_ == ValueKnownBy::kBlocks) return AddToBlocks(bytes);
  row_.crc32c = ExtendCrc32c(row_.crc32c, bytes);
  const std::string_view end =
      bytes.substr(bytes.size() - std::min(bytes.size(), sizeof end_));
  // The last four of all bytes added so far, in little-endian order.
  for (const char byte : end) {
    end_ = end_ >> 8 | uint32_t{static_cast<uint8_t>(byte)} << 24;
  }
}

void ValueSums::AddToBlocks(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view part =
        bytes.substr(0, kDigestBlockBytes - in_block_bytes_);
    block_crc_ = ExtendCrc32c(block_crc_, part);
    in_block_bytes_ += part.size();
    bytes.remove_prefix(part.size());
    if (in_block_bytes_ == kDigestBlockBytes) EndBlock();
  }
}

void ValueSums::EndBlock() {
  row_.crc32c = JoinCrc32c(row_.crc32c, block_crc_, in_block_bytes_);
  row_.block_crcs.push_back(block_crc_);
  block_crc_ = 0;
  in_block_bytes_ = 0;
}

ValueDigest ValueSums::Finish() {
  if (in_block_bytes_ > 0) EndBlock();
  // A single block is the complete value, whose CRC the row already has.
  if (row_.block_crcs.size() == 1) row_.block_crcs.clear();
  const bool has_end = known_by_ == ValueKnownBy::kCrc32cEnd
                           ? row_.byte_count >= sizeof end_
                           : known_by_ == ValueKnownBy::kZstdEnd &&
                                 row_.byte_count >= kZstdEndBytesMin;
  if (has_end) row_.tail = end_;
  return std::move(row_);
}

ValueDigest SumValue(std::string path, uint64_t offset, std::string_view bytes,
                     ValueKnownBy known_by) {
  ValueSums sums(known_by);
  sums.Add(bytes);
  ValueDigest row = sums.Finish();
  row.path = std::move(path);
  row.offset = offset;
  return row;
}

Status AddManifestRows(Store& store, const std::string& path,
                       DigestFile& digests) {
  HF_ASSIGN_OR_RETURN(const Bytes content, store.Read(path));
  digests.files.push_back({path, content.size(), Crc32c(content.view())});
  ValueDigest& row = digests.values.emplace_back();
  row.path = path;
  row.byte_count = content.size();
  row.crc32c = ManifestChecksum(content.view());
  row.kind = RowKind::kNode;
  return Status();
}

void AddNodeRows(const ocdbt::BulkWriteSummary& summary, DigestFile& digests) {
  for (const ocdbt::WrittenNode& node : summary.nodes) {
    ValueDigest& row = digests.values.emplace_back();
    row.path = summary.entries.files[node.place.file_index].path;
    row.offset = node.place.offset;
    row.byte_count = node.place.byte_count;
    row.crc32c = node.crc32c;
    row.kind = RowKind::kNode;
  }
}

}  // namespace holdfast
