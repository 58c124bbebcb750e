#include "formats/delta/array_delta.h"

#include "formats/delta/chunk_delta.h"
#include "ground/base/coding.h"

namespace holdfast {

uint64_t ArrayDeltaHeadBytes(uint64_t chunk_count) {
  return kArrayDeltaMagic.size() +
         sizeof(uint64_t) * (2 + 3 * chunk_count);  // the count, and the hash
}

std::string WriteArrayDeltaHead(const std::vector<ChunkDeltaEntry>& entries) {
  std::string head(kArrayDeltaMagic);
  PutU64Little(head, entries.size());
  for (const ChunkDeltaEntry& entry : entries) {
    PutU64Little(head, entry.end);
    PutU64Little(head, entry.base_hash);
    PutU64Little(head, entry.result_hash);
  }
  PutU64Little(head, ChunkHash(head));
  return head;
}

Result<std::vector<ChunkDeltaEntry>> ReadArrayDeltaHead(std::string_view head,
                                                        uint64_t chunk_count,
                                                        uint64_t array_bytes) {
  const uint64_t head_bytes = ArrayDeltaHeadBytes(chunk_count);
  if (head.size() != head_bytes || array_bytes < head_bytes) {
    return DataLossError("the head of a delta has " +
                         std::to_string(head.size()) + " bytes (want " +
                         std::to_string(head_bytes) + ", for " +
                         std::to_string(chunk_count) + " chunks)");
  }
  const size_t hashed_bytes = head.size() - sizeof(uint64_t);
  Cursor in(head);
  std::string_view magic;
  uint64_t count = 0, hash = 0;
  in.ReadBytes(kArrayDeltaMagic.size(), magic);
  in.ReadU64Little(count);
  if (magic != kArrayDeltaMagic || count != chunk_count) {
    return DataLossError("not the head of a delta (got " +
                         std::to_string(count) + " chunks, want " +
                         std::to_string(chunk_count) + ")");
  }
  std::vector<ChunkDeltaEntry> entries(chunk_count);
  uint64_t last_end = 0;
  for (ChunkDeltaEntry& entry : entries) {
    in.ReadU64Little(entry.end);
    in.ReadU64Little(entry.base_hash);
    in.ReadU64Little(entry.result_hash);
    if (entry.end < last_end || entry.end > array_bytes - head_bytes) {
      return DataLossError("the head of a delta leads outside its array");
    }
    last_end = entry.end;
  }
  in.ReadU64Little(hash);
  if (hash != ChunkHash(head.substr(0, hashed_bytes))) {
    return DataLossError("the head of a delta does not match its checksum");
  }
  return entries;
}

}  // namespace holdfast
