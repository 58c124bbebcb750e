#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <numeric>

#include "formats/zarr/array_test_util.h"
#include "formats/zarr/format/shard_index.h"
#include "ground/base/crc32c.h"
#include "stores/storage/memory_store.h"
#include "twins/counting_store.h"

namespace holdfast::zarr {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
ArrayView ViewOf(DType dtype, std::vector<T>& values, const Shape& shape) {
  return {dtype, reinterpret_cast<char*>(values.data()), shape,
          ContiguousStrides(shape, sizeof(T))};
}

std::vector<int32_t> Iota(int64_t count) {
  std::vector<int32_t> values(count);
  std::iota(values.begin(), values.end(), 1);
  return values;
}

std::vector<std::string> Keys(Store& store) {
  std::vector<std::string> keys;
  EXPECT_TRUE(store
                  .List("",
                        [&](std::string_view key, const ObjectInfo&) {
                          keys.emplace_back(key);
                          return Status();
                        })
                  .ok());
  return keys;
}

class ArrayTest : public ::testing::Test {
 protected:
  Array Create(const ArrayMetadata& metadata, const ArrayOptions& options = {},
               std::string prefix = "a/") {
    auto array = Array::Create(&store_, std::move(prefix), metadata, options);
    EXPECT_TRUE(array.ok()) << array.status().ToString();
    return *array;
  }

  // Writes 1, 2, 3, ... to the complete array.
  void WriteIota(const Array& array) {
    std::vector<int32_t> values = Iota(ElementCount(array.shape()));
    const Status status = array.Write(
        BoxOf(array.shape()), ViewOf(DType::kInt32, values, array.shape()));
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  Result<std::vector<int32_t>> ReadBox(
      const Array& array, const Box& box,
      MissingChunks missing = MissingChunks::kFill, Store* store = nullptr) {
    std::vector<int32_t> values(ElementCount(box.shape), -1);
    const Status status =
        ReadForTest(store != nullptr ? *store : store_, array, box,
                    ViewOf(DType::kInt32, values, box.shape), missing);
    if (!status.ok()) return status;
    return values;
  }

  MemoryStore store_;
};

TEST_F(ArrayTest, CreateWritesTheMetadataText) {
  Create(OrbaxV2({4}, DType::kInt32, {4}, Compression::kZstd));
  EXPECT_EQ(store_.Read("a/.zarray")->view(),
            R"({"chunks":[4],"compressor":{"id":"zstd","level":1},)"
            R"("dimension_separator":".","dtype":"<i4","fill_value":null,)"
            R"("filters":null,"order":"C","shape":[4],"zarr_format":2})");
  Create(OrbaxV3({4}, DType::kInt32, {4}, Compression::kZstd));
  EXPECT_THAT(Keys(store_), ElementsAre("a/.zarray", "a/zarr.json"));
}

TEST_F(ArrayTest, CreateDoesNotReplace) {
  const ArrayMetadata metadata =
      OrbaxV2({4}, DType::kInt32, {4}, Compression::kZstd);
  Create(metadata);
  EXPECT_EQ(Array::Create(&store_, "a/", metadata).status().code(),
            StatusCode::kAlreadyExists);
  EXPECT_TRUE(Array::Create(&store_, "a/", metadata, {.overwrite = true}).ok());
}

TEST_F(ArrayTest, PrefixEndsInASlash) {
  const ArrayMetadata metadata =
      OrbaxV3({4}, DType::kInt32, {4}, Compression::kZstd);
  EXPECT_EQ(Array::Create(&store_, "a", metadata).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(ArrayTest, MetadataKeyOverride) {
  Create(OrbaxV2({4}, DType::kInt32, {4}, Compression::kZstd),
         {.metadata_key = ".mine"});
  EXPECT_THAT(Keys(store_), ElementsAre("a/.mine"));
}

TEST_F(ArrayTest, BareArrayHasNoPrefix) {
  const Array array =
      Create(OrbaxV2({}, DType::kInt32, {}, Compression::kNone), {}, "");
  WriteIota(array);
  EXPECT_THAT(Keys(store_), ElementsAre(".zarray", "0"));
  EXPECT_THAT(*ReadBox(array, {{}, {}}), ElementsAre(1));
}

// The example of doc/zarr.md: a rank-0 int64 in a shard.
TEST_F(ArrayTest, BytesOfAScalarShard) {
  const Array array = Create(OrbaxV3({}, DType::kInt64, {}, Compression::kZstd),
                             {.zstd_checksums = false});
  std::vector<int64_t> seven = {7};
  ASSERT_TRUE(array.Write({{}, {}}, ViewOf(DType::kInt64, seven, {})).ok());
  EXPECT_EQ(store_.Read("a/c")->view(),
            std::string_view("\x28\xb5\x2f\xfd\x20\x08\x41\0\0\x07\0\0\0\0\0\0"
                             "\0\0\0\0\0\0\0\0\0\x11\0\0\0\0\0\0\0"
                             "\x79\xee\x3a\x8f",
                             37));
}

TEST_F(ArrayTest, FramesCarryChecksumsUnlessToldOtherwise) {
  for (bool checksums : {true, false}) {
    const Array array =
        Create(OrbaxV2({2}, DType::kInt32, {2}, Compression::kZstd),
               {.zstd_checksums = checksums, .overwrite = true});
    WriteIota(array);
    // Bit 2 of the frame header descriptor is the checksum flag.
    EXPECT_EQ((store_.Read("a/0")->data()[4] & 4) != 0, checksums);
  }
}

TEST_F(ArrayTest, EdgeChunksArePaddedWithTheFillValue) {
  ArrayMetadata metadata = OrbaxV2({3}, DType::kInt32, {2}, Compression::kNone);
  metadata.fill_is_null = false;
  metadata.fill_element = std::string("\x09\0\0\0", 4);
  WriteIota(Create(metadata));
  EXPECT_EQ(store_.Read("a/1")->view(),
            std::string_view("\x03\0\0\0\x09\0\0\0", 8));
}

TEST_F(ArrayTest, PartialWriteKeepsTheRest) {
  for (const ArrayMetadata& metadata :
       {OrbaxV2({4, 5}, DType::kInt32, {3, 2}, Compression::kZstd),
        OrbaxV3({4, 5}, DType::kInt32, {3, 2}, Compression::kZstd)}) {
    const Array array = Create(metadata);
    WriteIota(array);
    std::vector<int32_t> patch = {-1, -2, -3, -4};
    ASSERT_TRUE(
        array.Write({{2, 1}, {2, 2}}, ViewOf(DType::kInt32, patch, {2, 2}))
            .ok());
    EXPECT_THAT(*ReadBox(array, BoxOf({4, 5})),
                ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -1, -2, 14, 15,
                            16, -3, -4, 19, 20));
  }
}

TEST_F(ArrayTest, PartialWriteOfAMissingChunkStartsFromTheFillValue) {
  const Array array =
      Create(OrbaxV2({3}, DType::kInt32, {3}, Compression::kNone));
  std::vector<int32_t> one = {5};
  ASSERT_TRUE(array.Write({{1}, {1}}, ViewOf(DType::kInt32, one, {1})).ok());
  EXPECT_THAT(*ReadBox(array, BoxOf({3})), ElementsAre(0, 5, 0));
}

TEST_F(ArrayTest, MissingChunksAreFilledOrRefused) {
  const ArrayMetadata metadata =
      OrbaxV2({4, 4}, DType::kInt32, {2, 2}, Compression::kZstd);
  const Array filling = Create(metadata);
  WriteIota(filling);
  ASSERT_TRUE(store_.Delete("a/1.0").ok());
  EXPECT_THAT(*ReadBox(filling, {{2, 1}, {1, 2}}), ElementsAre(0, 11));
  EXPECT_THAT(*ReadBox(filling, {{2, 2}, {1, 2}}, MissingChunks::kRefuse),
              ElementsAre(11, 12));
  const auto refused =
      ReadBox(filling, {{2, 1}, {1, 2}}, MissingChunks::kRefuse);
  EXPECT_EQ(refused.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("Error reading \"" + store_.Describe("a/1.0")));
}

TEST_F(ArrayTest, MissingInnerChunksAreFilledOrRefused) {
  ArrayMetadata metadata = OrbaxV3({4}, DType::kInt32, {4}, Compression::kNone);
  metadata.sharding->chunk_shape = {2};
  const Array filling =
      Create(metadata, {.store_data_equal_to_fill_value = false});
  std::vector<int32_t> values = {0, 0, 3, 4};
  ASSERT_TRUE(
      filling.Write(BoxOf({4}), ViewOf(DType::kInt32, values, {4})).ok());
  EXPECT_EQ(store_.Stat("a/c/0")->byte_count, 8u + 36u);
  EXPECT_THAT(*ReadBox(filling, BoxOf({4})), ElementsAre(0, 0, 3, 4));
  EXPECT_THAT(*ReadBox(filling, {{2}, {2}}, MissingChunks::kRefuse),
              ElementsAre(3, 4));
  for (const Box& box : {BoxOf({4}), Box{{1}, {1}}}) {
    const auto refused = ReadBox(filling, box, MissingChunks::kRefuse);
    EXPECT_EQ(refused.status().code(), StatusCode::kNotFound);
    EXPECT_THAT(std::string(refused.status().message()),
                HasSubstr("shard entry {0}/{2}"));
  }
}

TEST_F(ArrayTest, ChunksEqualToTheFillValueAreLeftOut) {
  ArrayMetadata metadata =
      OrbaxV3({5}, DType::kFloat32, {2}, Compression::kZstd);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  metadata.fill_element =
      std::string(reinterpret_cast<const char*>(&nan), sizeof nan);
  const Array array =
      Create(metadata, {.store_data_equal_to_fill_value = false});
  // The last chunk is padded with the fill value.
  std::vector<float> values = {nan, nan, 1, nan, nan};
  const ArrayView view = ViewOf(DType::kFloat32, values, {5});
  ASSERT_TRUE(array.Write(BoxOf({5}), view).ok());
  EXPECT_THAT(Keys(store_), ElementsAre("a/c/1", "a/zarr.json"));
  std::vector<float> read(5);
  ASSERT_TRUE(
      ReadForTest(store_, array, BoxOf({5}), ViewOf(DType::kFloat32, read, {5}))
          .ok());
  EXPECT_EQ(std::memcmp(read.data(), values.data(), 20), 0);
  // A chunk that becomes equal to the fill value is deleted.
  values[2] = nan;
  ASSERT_TRUE(array.Write(BoxOf({5}), view).ok());
  EXPECT_THAT(Keys(store_), ElementsAre("a/zarr.json"));
  // Minus zero and another NaN are not equal to the fill value.
  const Array zeros = Create(
      OrbaxV3({1}, DType::kFloat32, {1}, Compression::kNone),
      {.store_data_equal_to_fill_value = false, .overwrite = true}, "z/");
  std::vector<float> minus = {-0.0f};
  ASSERT_TRUE(
      zeros.Write(BoxOf({1}), ViewOf(DType::kFloat32, minus, {1})).ok());
  EXPECT_TRUE(store_.Stat("z/c/0").ok());
}

TEST_F(ArrayTest, NullFillAlwaysStores) {
  const Array array =
      Create(OrbaxV2({2}, DType::kInt32, {2}, Compression::kNone),
             {.store_data_equal_to_fill_value = false});
  std::vector<int32_t> zeros = {0, 0};
  ASSERT_TRUE(array.Write(BoxOf({2}), ViewOf(DType::kInt32, zeros, {2})).ok());
  EXPECT_TRUE(store_.Stat("a/0").ok());
}

TEST_F(ArrayTest, InnerChunksOutsideTheArrayAreNotStored) {
  ArrayMetadata metadata = OrbaxV3({5}, DType::kInt32, {8}, Compression::kNone);
  metadata.sharding->chunk_shape = {2};
  WriteIota(Create(metadata));
  // Three of four inner chunks, each of full size, and the index.
  const Bytes shard = *store_.Read("a/c/0");
  ASSERT_EQ(shard.size(), 3u * 8 + 4 * 16 + 4);
  const auto index =
      ShardIndex::Decode(shard.Slice(24, 68), *metadata.sharding, 4);
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(*index->Entry(2, shard.size()), (ShardEntry{16, 8}));
  EXPECT_TRUE(index->Entry(3, shard.size())->missing());
}

TEST_F(ArrayTest, ZeroSizeArrays) {
  const Array array =
      Create(OrbaxV2({3, 0}, DType::kInt32, {2, 2}, Compression::kZstd));
  WriteIota(array);
  EXPECT_THAT(Keys(store_), ElementsAre("a/.zarray"));
  EXPECT_TRUE(ReadBox(array, BoxOf({3, 0}))->empty());
}

TEST_F(ArrayTest, HugeGridsTouchOnlyWhatIsAsked) {
  const Array array = Create(OrbaxV3({kExtentMax, kExtentMax}, DType::kInt32,
                                     {1, 1}, Compression::kZstd));
  const Box corner = {{kExtentMax - 1, kExtentMax - 2}, {1, 2}};
  std::vector<int32_t> values = {8, 9};
  ASSERT_TRUE(array.Write(corner, ViewOf(DType::kInt32, values, {1, 2})).ok());
  EXPECT_THAT(*ReadBox(array, corner), ElementsAre(8, 9));
  EXPECT_THAT(*ReadBox(array, {{5, 6}, {1, 2}}), ElementsAre(0, 0));
}

TEST_F(ArrayTest, BadRequests) {
  const Array array =
      Create(OrbaxV2({4}, DType::kInt32, {2}, Compression::kNone));
  std::vector<int32_t> values(8);
  const ArrayView four = ViewOf(DType::kInt32, values, {4});
  for (const Box& box : {Box{{1}, {4}}, Box{{-1}, {4}}, Box{{0, 0}, {4, 1}},
                         Box{{std::numeric_limits<int64_t>::max()}, {4}},
                         Box{{0}, {3}}, Box{{}, {}}}) {
    EXPECT_EQ(array.Write(box, four).code(), StatusCode::kInvalidArgument);
  }
  const ArrayView other = {DType::kUint32, four.data, {4}, {4}};
  EXPECT_EQ(array.Write(BoxOf({4}), other).code(),
            StatusCode::kInvalidArgument);
}

TEST_F(ArrayTest, CancelStops) {
  const Array array =
      Create(OrbaxV2({4}, DType::kInt32, {2}, Compression::kNone));
  WriteIota(array);
  CancelToken cancel;
  cancel.Cancel();
  std::vector<int32_t> values(4);
  const ArrayView view = ViewOf(DType::kInt32, values, {4});
  EXPECT_EQ(array.Write(BoxOf({4}), view, nullptr, &cancel).code(),
            StatusCode::kCancelled);
}

TEST_F(ArrayTest, ExecutorsGiveTheSameResult) {
  Executor executor(4);
  const Array array =
      Create(OrbaxV3({40, 30}, DType::kInt32, {7, 4}, Compression::kZstd));
  std::vector<int32_t> values = Iota(1200);
  ASSERT_TRUE(array
                  .Write(BoxOf({40, 30}),
                         ViewOf(DType::kInt32, values, {40, 30}), &executor)
                  .ok());
  std::vector<int32_t> read(1200);
  ASSERT_TRUE(ReadForTest(store_, array, BoxOf({40, 30}),
                          ViewOf(DType::kInt32, read, {40, 30}))
                  .ok());
  EXPECT_EQ(read, values);
}

// A chunk of 2^60 bytes whose object is tiny.
TEST_F(ArrayTest, TinyObjectsDoNotBuyHugeMemory) {
  for (Compression compression : {Compression::kZstd, Compression::kNone,
                                  Compression::kFast, Compression::kPlanes}) {
    for (const ArrayMetadata& metadata :
         {OrbaxV2({4}, DType::kInt32, {int64_t{1} << 58}, compression),
          OrbaxV3({4}, DType::kInt32, {int64_t{1} << 58}, compression)}) {
      const Array array = Create(metadata, {.overwrite = true});
      const std::string key = metadata.zarr_format == 2 ? "a/0" : "a/c/0";
      ASSERT_TRUE(store_
                      .Write(key,
                             "\x28\xb5\x2f\xfd 012345678901234567890"
                             "12345678901234567890")
                      .ok());
      EXPECT_EQ(ReadBox(array, BoxOf({4})).status().code(),
                StatusCode::kDataLoss);
    }
  }
}

TEST_F(ArrayTest, DamagedChunksSayWhere) {
  const Array array =
      Create(OrbaxV2({4}, DType::kInt32, {2}, Compression::kNone));
  WriteIota(array);
  ASSERT_TRUE(store_.Write("a/1", "1234567").ok());
  const auto read = ReadBox(array, BoxOf({4}));
  EXPECT_EQ(read.status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(read.status().message(),
            "Error reading \"" + store_.Describe("a/1") +
                "\": Not enough data: expected at least 8 or 1 more; at byte "
                "7");
}

// Reading one of 64 inner chunks must not read the complete shard.
TEST_F(ArrayTest, PartOfAShardReadsIndexAndInnerChunkOnly) {
  for (IndexLocation where : {IndexLocation::kEnd, IndexLocation::kStart}) {
    ArrayMetadata metadata =
        OrbaxV3({1 << 20}, DType::kInt32, {1 << 20}, Compression::kNone);
    metadata.sharding->chunk_shape = {1 << 14};
    metadata.sharding->index_location = where;
    WriteIota(Create(metadata, {.overwrite = true}));
    CountingStore counting(&store_);
    const Array array = *Array::Assume(&counting, "a/", metadata);
    EXPECT_THAT(
        *ReadBox(array, {{5 << 14}, {2}}, MissingChunks::kFill, &counting),
        ElementsAre((5 << 14) + 1, (5 << 14) + 2));
    const StoreCounters counters = counting.counters();
    EXPECT_EQ(counters.read_calls, 2u);
    EXPECT_EQ(counters.read_bytes, 64u * 16 + 4 + (4u << 14));
  }
}

TEST_F(ArrayTest, NeighbouringInnerChunksAreOneRead) {
  ArrayMetadata metadata =
      OrbaxV3({1 << 20}, DType::kInt32, {1 << 20}, Compression::kZstd);
  metadata.sharding->chunk_shape = {1 << 14};
  WriteIota(Create(metadata));
  CountingStore counting(&store_);
  const Array array = *Array::Assume(&counting, "a/", metadata);
  const auto read =
      ReadBox(array, {{5 << 14}, {3 << 14}}, MissingChunks::kFill, &counting);
  EXPECT_EQ(read->back(), 8 << 14);
  EXPECT_EQ(counting.counters().read_calls, 2u);
}

TEST_F(ArrayTest, PartOfAPlainChunkReadsItsRowsOnly) {
  WriteIota(Create(
      OrbaxV2({1024, 1024}, DType::kInt32, {1024, 1024}, Compression::kNone)));
  CountingStore counting(&store_);
  const Array array = *OpenForTest(&counting, "a/");
  counting.ResetCounters();
  EXPECT_EQ(ReadBox(array, {{7, 0}, {2, 1024}}, MissingChunks::kFill, &counting)
                ->front(),
            7 * 1024 + 1);
  EXPECT_EQ(counting.counters().read_calls, 1u);
  EXPECT_EQ(counting.counters().read_bytes, 2u * 4096);
  counting.ResetCounters();
  // A column: its gaps of 4 KiB are read, too.
  EXPECT_EQ(
      ReadBox(array, {{0, 3}, {4, 1}}, MissingChunks::kFill, &counting)->back(),
      3 * 1024 + 4);
  EXPECT_EQ(counting.counters().read_calls, 1u);
  EXPECT_EQ(counting.counters().read_bytes, 3u * 4096 + 4);
}

}  // namespace
}  // namespace holdfast::zarr
