#include "formats/zarr/format/shard_index.h"

#include <cassert>

#include "ground/base/coding.h"
#include "ground/base/crc32c.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"

namespace holdfast::zarr {
namespace {

constexpr uint64_t kEntryBytes = 16;
constexpr uint64_t kCrcBytes = 4;

uint64_t InEndian(uint64_t value, Endian endian) {
  return endian == Endian::kBig ? __builtin_bswap64(value) : value;
}

std::string Hex(uint32_t value) { return "0x" + HexNumber(value, 8); }

// Checks the last checksum and removes it from `encoded`.
Status CheckCrc(std::string_view& encoded) {
  const std::string_view body = encoded.substr(0, encoded.size() - kCrcBytes);
  const uint32_t stored = LoadLittle<uint32_t>(body.data() + body.size());
  const uint32_t computed = Crc32c(body);
  if (stored != computed) {
    return DataLossError(
        "Error decoding shard index: Digest mismatch, stored digest is " +
        Hex(stored) + " but computed digest is " + Hex(computed));
  }
  encoded = body;
  return Status();
}

}  // namespace

uint64_t ShardIndexBytes(const ShardingParams& sharding, uint64_t entry_count) {
  return kEntryBytes * entry_count + kCrcBytes * sharding.index_crc32c_count;
}

void EncodeShardIndex(std::span<const ShardEntry> entries,
                      const ShardingParams& sharding, char* target) {
  char* end = target;
  for (const ShardEntry& entry : entries) {
    StoreLittle(end, InEndian(entry.offset, sharding.index_endian));
    StoreLittle(end + 8, InEndian(entry.byte_count, sharding.index_endian));
    end += kEntryBytes;
  }
  for (int i = 0; i < sharding.index_crc32c_count; ++i) {
    const size_t byte_count = static_cast<size_t>(end - target);
    StoreLittle(end, Crc32c(std::string_view(target, byte_count)));
    end += kCrcBytes;
  }
}

Result<ShardIndex> ShardIndex::Decode(Bytes encoded,
                                      const ShardingParams& sharding,
                                      uint64_t entry_count) {
  assert(encoded.size() == ShardIndexBytes(sharding, entry_count));
  std::string_view rest = encoded.view();
  for (int i = 0; i < sharding.index_crc32c_count; ++i) {
    HF_RETURN_IF_ERROR(CheckCrc(rest));
  }
  return ShardIndex(std::move(encoded), sharding.index_endian, entry_count);
}

Result<ShardEntry> ShardIndex::Entry(uint64_t number,
                                     uint64_t shard_bytes) const {
  assert(number < entry_count_);
  const char* stored = encoded_.data() + kEntryBytes * number;
  const ShardEntry entry = {
      InEndian(LoadLittle<uint64_t>(stored), endian_),
      InEndian(LoadLittle<uint64_t>(stored + 8), endian_)};
  if (entry.missing()) return entry;
  // Unsigned: if the sum wraps, one of its two terms is refused below.
  const uint64_t end = entry.offset + entry.byte_count;
  // TensorStore stores sizes in an int64.
  constexpr uint64_t kInt64Max = ~uint64_t{0} >> 1;
  if (entry.offset > kInt64Max || entry.byte_count > kInt64Max ||
      end > kInt64Max) {
    return DataLossError("Invalid shard index entry " + std::to_string(number) +
                         " with offset=" + std::to_string(entry.offset) +
                         ", length=" + std::to_string(entry.byte_count));
  }
  if (end > shard_bytes) {
    return DataLossError(
        "Shard index entry " + std::to_string(number) + " with byte range [" +
        std::to_string(entry.offset) + ", " + std::to_string(end) +
        ") is invalid for shard of size " + std::to_string(shard_bytes));
  }
  return entry;
}

Status CheckShardBytes(uint64_t shard_bytes, uint64_t index_bytes) {
  if (shard_bytes >= index_bytes) return Status();
  return DataLossError("Existing shard has size of " +
                       std::to_string(shard_bytes) +
                       " bytes, but expected at least " +
                       std::to_string(index_bytes) + " bytes");
}

}  // namespace holdfast::zarr
