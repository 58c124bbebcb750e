#include "formats/zarr/format/shard_index.h"

#include <gtest/gtest.h>

namespace holdfast::zarr {
namespace {

std::string Encode(std::span<const ShardEntry> entries,
                   const ShardingParams& sharding) {
  std::string encoded(ShardIndexBytes(sharding, entries.size()), '?');
  EncodeShardIndex(entries, sharding, encoded.data());
  return encoded;
}

// The index in the example of doc/zarr.md: one inner chunk of 17 bytes.
TEST(ShardIndexTest, BytesOfTheExample) {
  const ShardEntry entry = {0, 17};
  const std::string encoded = Encode({&entry, 1}, ShardingParams());
  EXPECT_EQ(
      encoded,
      std::string("\0\0\0\0\0\0\0\0\x11\0\0\0\0\0\0\0\x79\xee\x3a\x8f", 20));
}

TEST(ShardIndexTest, RoundTrip) {
  const std::vector<ShardEntry> entries = {{0, 4}, {}, {4, 0}, {100, 28}};
  for (Endian endian : {Endian::kLittle, Endian::kBig}) {
    for (int crc_count : {0, 1, 3}) {
      ShardingParams sharding;
      sharding.index_endian = endian;
      sharding.index_crc32c_count = crc_count;
      const std::string encoded = Encode(entries, sharding);
      ASSERT_EQ(encoded.size(), 64u + 4u * crc_count);
      const auto index = ShardIndex::Decode(Bytes(encoded), sharding, 4);
      ASSERT_TRUE(index.ok());
      for (uint64_t i = 0; i < entries.size(); ++i) {
        const auto entry = index->Entry(i, 128);
        ASSERT_TRUE(entry.ok()) << entry.status().ToString();
        EXPECT_EQ(*entry, entries[i]);
      }
      EXPECT_TRUE(index->Entry(1, 128)->missing());
    }
  }
}

TEST(ShardIndexTest, EveryFlippedBitIsFound) {
  const std::vector<ShardEntry> entries = {{0, 4}, {4, 4}};
  const ShardingParams sharding;
  const std::string encoded = Encode(entries, sharding);
  for (size_t bit = 0; bit < 8 * encoded.size(); ++bit) {
    std::string damaged = encoded;
    damaged[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    const auto index = ShardIndex::Decode(Bytes(damaged), sharding, 2);
    ASSERT_EQ(index.status().code(), StatusCode::kDataLoss) << bit;
    EXPECT_TRUE(index.status().message().starts_with(
        "Error decoding shard index: Digest mismatch, stored digest is 0x"));
  }
}

std::string EntryError(ShardEntry entry, uint64_t shard_bytes) {
  ShardingParams sharding;
  sharding.index_crc32c_count = 0;
  const auto index =
      ShardIndex::Decode(Bytes(Encode({&entry, 1}, sharding)), sharding, 1);
  EXPECT_TRUE(index.ok());
  const auto read = index->Entry(0, shard_bytes);
  EXPECT_EQ(read.status().code(), StatusCode::kDataLoss);
  return std::string(read.status().message());
}

TEST(ShardIndexTest, BadEntries) {
  EXPECT_EQ(EntryError({~uint64_t{0}, 4}, 44),
            "Invalid shard index entry 0 with offset=18446744073709551615, "
            "length=4");
  EXPECT_EQ(EntryError({4, ~uint64_t{0}}, 44),
            "Invalid shard index entry 0 with offset=4, "
            "length=18446744073709551615");
  EXPECT_EQ(EntryError({~uint64_t{0} - 3, 8}, 44),
            "Invalid shard index entry 0 with offset=18446744073709551612, "
            "length=8");
  EXPECT_EQ(EntryError({200, 4}, 44),
            "Shard index entry 0 with byte range [200, 204) is invalid for "
            "shard of size 44");
  EXPECT_EQ(EntryError({41, 4}, 44),
            "Shard index entry 0 with byte range [41, 45) is invalid for "
            "shard of size 44");
}

TEST(ShardIndexTest, ShardSmallerThanItsIndex) {
  EXPECT_TRUE(CheckShardBytes(36, 36).ok());
  const Status status = CheckShardBytes(35, 36);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_EQ(status.message(),
            "Existing shard has size of 35 bytes, but expected at least 36 "
            "bytes");
}

}  // namespace
}  // namespace holdfast::zarr
