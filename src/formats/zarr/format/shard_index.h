// The index of a shard: the place of each inner chunk (doc/zarr.md, Sharding).
//
// The index stores, for each inner chunk in C order of the shard's grid, its
// offset and length as uint64, then a CRC-32C for each crc32c codec. Offset and
// length are 2^64 - 1 for an inner chunk that is not stored. Offsets count from
// the start of the shard.
// Thread-safety: pure functions; a ShardIndex is immutable.
// Ownership: a ShardIndex shares the bytes that it was decoded from. Units:
// bytes.
// Errors: DataLoss, with TensorStore's messages.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "formats/zarr/format/metadata.h"
#include "ground/base/bytes.h"

namespace holdfast::zarr {

inline constexpr uint64_t kMissingInnerChunk = ~uint64_t{0};

struct ShardEntry {
  uint64_t offset = kMissingInnerChunk;
  uint64_t byte_count = kMissingInnerChunk;

  bool missing() const {
    return offset == kMissingInnerChunk && byte_count == kMissingInnerChunk;
  }
  bool operator==(const ShardEntry&) const = default;
};

// Returns the encoded size of an index. REQUIRES: metadata passed
// CheckMetadata, which excludes overflow.
uint64_t ShardIndexBytes(const ShardingParams& sharding, uint64_t entry_count);

// Writes ShardIndexBytes bytes to `target`.
void EncodeShardIndex(std::span<const ShardEntry> entries,
                      const ShardingParams& sharding, char* target);

class ShardIndex {
 public:
  // Checks every checksum. REQUIRES: `encoded` is exactly the index.
  static Result<ShardIndex> Decode(Bytes encoded,
                                   const ShardingParams& sharding,
                                   uint64_t entry_count);

  uint64_t entry_count() const { return entry_count_; }
  // Returns entry `number` if it is missing or inside a shard of this size.
  Result<ShardEntry> Entry(uint64_t number, uint64_t shard_bytes) const;

 private:
  ShardIndex(Bytes encoded, Endian endian, uint64_t entry_count)
      : encoded_(std::move(encoded)),
        endian_(endian),
        entry_count_(entry_count) {}

  Bytes encoded_;
  Endian endian_;
  uint64_t entry_count_;
};

// Returns DataLoss if a shard of this size cannot hold its index.
Status CheckShardBytes(uint64_t shard_bytes, uint64_t index_bytes);

}  // namespace holdfast::zarr
