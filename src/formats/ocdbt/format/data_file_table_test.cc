#include "formats/ocdbt/format/data_file_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "formats/ocdbt/format/hex_test_util.h"

namespace holdfast::ocdbt {
namespace {

using ::testing::HasSubstr;

Result<DataFileTable> DecodeTable(std::string_view bytes,
                                  std::string_view transitive_base = "") {
  BodyReader reader(bytes, 0);
  return ReadDataFileTable(reader, transitive_base);
}

std::string EncodeAll(const DataFileTable& files) {
  DataFileTableWriter table(files);
  for (size_t i = 0; i < files.size(); ++i) {
    table.Use(static_cast<uint32_t>(i));
  }
  table.Sort();
  BodyWriter writer(table.BytesMax());
  table.Write(writer);
  return std::string(writer.view());
}

std::string TableError(std::string_view bytes,
                       std::string_view transitive = "") {
  const auto files = DecodeTable(bytes, transitive);
  return files.ok() ? "OK" : files.status().ToString();
}

// The table of a database merged from those of two processes.
const char kMerged[] = "02 0e 32 24 10 10";

TEST(DataFileTableTest, EmptyTableIsOneByte) {
  EXPECT_EQ(EncodeAll({}), std::string(1, '\0'));
  const auto files = DecodeTable(FromHex("00"));
  ASSERT_TRUE(files.ok());
  EXPECT_TRUE(files->empty());
}

TEST(DataFileTableTest, PrefixStopsInsideDifferentBasePaths) {
  const std::string bytes = FromHex(kMerged) +
                            "ocdbt.process_0/d/6f319ce43a934da595cde51c75661033"
                            "1/d/69f21f6c09440352a1c0e3e158e6bb2e";
  const auto files = DecodeTable(bytes);
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  ASSERT_EQ(files->size(), 2u);
  EXPECT_EQ((*files)[0].base(), "ocdbt.process_0/");
  EXPECT_EQ((*files)[1].path,
            "ocdbt.process_1/d/69f21f6c09440352a1c0e3e158e6bb2e");
  EXPECT_EQ((*files)[1].base(), "ocdbt.process_1/");
  EXPECT_EQ(EncodeAll(*files), bytes);
}

TEST(DataFileTableTest, TransitiveBaseGoesInFront) {
  const auto files = DecodeTable(FromHex("01 03 01") + "b/r", "outer/");
  ASSERT_TRUE(files.ok());
  EXPECT_EQ((*files)[0].path, "outer/b/r");
  EXPECT_EQ((*files)[0].base(), "outer/b");
}

TEST(DataFileTableTest, RandomTablesRoundTripSortedAndDistinct) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    DataFileTable files(random() % 12);
    for (DataFile& file : files) {
      const size_t base = random() % 4;
      file.path = std::string("aab").substr(0, base);
      file.base_byte_count = base;
      for (size_t n = random() % 5; n > 0; --n) {
        file.path += static_cast<char>('a' + random() % 2);
      }
    }
    DataFileTable want = files;
    std::sort(want.begin(), want.end(), [](const auto& a, const auto& b) {
      return std::pair(a.base(), a.relative()) <
             std::pair(b.base(), b.relative());
    });
    want.erase(std::unique(want.begin(), want.end()), want.end());
    const auto decoded = DecodeTable(EncodeAll(files));
    ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
    EXPECT_EQ(*decoded, want);
  }
}

TEST(DataFileTableTest, WritesOnlyUsedFilesAndNumbersThem) {
  const DataFileTable files = {{"c", 0}, {"b", 0}, {"a", 0}, {"b", 0}};
  DataFileTableWriter table(files);
  for (const uint32_t file_index : {1, 0, 0, 3, 1}) table.Use(file_index);
  table.Sort();
  EXPECT_EQ(table.WrittenIndex(0), 1u);
  EXPECT_EQ(table.WrittenIndex(1), 0u);
  EXPECT_EQ(table.WrittenIndex(3), 0u);
  BodyWriter writer(table.BytesMax());
  table.Write(writer);
  EXPECT_EQ(writer.view(), FromHex("02 00 01 01 00 00") + "bc");
}

TEST(DataFileTableTest, AcceptsWhatNobodyWrites) {
  // Unsorted, with duplicates, and with prefixes shorter than possible.
  const auto files =
      DecodeTable(FromHex("03 00 00 02 02 02 00 00 00") + "bbaaaa");
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  EXPECT_EQ((*files)[0].path, "bb");
  EXPECT_EQ((*files)[2].path, "aa");
}

TEST(DataFileTableTest, RefusesDamage) {
  EXPECT_EQ(TableError(FromHex("02 05 03 01 00 00") + "abcd"),
            "DATA_LOSS: path_prefix_length[0] = 5 > path_length[0] = 3; at "
            "byte 6");
  EXPECT_EQ(TableError(FromHex("01 03 04") + "abc"),
            "DATA_LOSS: base_path_length[0] = 4 > path_length[0] = 3 = "
            "prefix_length(0) + suffix_length(3); at byte 3");
  EXPECT_EQ(TableError(FromHex("02 03 03 01 02 01") + "abcd"),
            "DATA_LOSS: path_prefix_length[0] = 3 > min(base_path_length[0] = "
            "2, base_path_length[1] = 1) is not valid if base_path_length[0] "
            "!= base_path_length[1]; at byte 6");
  EXPECT_EQ(TableError(FromHex("01 808004 00")),
            "DATA_LOSS: Invalid 16-bit varint value; at byte 1");
  EXPECT_EQ(TableError(FromHex("01 03 00") + "ab"),
            "DATA_LOSS: Unexpected end of data; at byte 3");
  EXPECT_EQ(TableError(FromHex("01 04 00") + "abcd", std::string(65532, 'p')),
            "DATA_LOSS: path_length[0] = prefix_length(0) + suffix_length(4) "
            "= 4 > 65535 - transitive_length(65532) = 3; at byte 3");
}

TEST(DataFileTableTest, CountIsComparedWithSizeBeforeAllocating) {
  EXPECT_EQ(TableError(FromHex("ffffffffffffffff7f 00 00")),
            "DATA_LOSS: Unexpected end of data; at byte 9");
}

TEST(DataFileTableTest, RefusesTableThatExpandsBeyondReason) {
  // 10,000 paths of 60,000 bytes, each a copy of the previous one.
  std::string bytes = FromHex("904e");
  for (int i = 1; i < 10000; ++i) bytes += FromHex("e0d403");
  bytes += FromHex("e0d403");
  bytes.append(9999 + 10000, '\0');
  bytes.append(60000, 'p');
  EXPECT_THAT(TableError(bytes),
              HasSubstr("DATA_LOSS: Data file paths take 600000000 bytes"));
}

TEST(DataFileTableTest, RefusesBadFileIndexAndRange) {
  const DataFileTable files = {{"base/rel", 5}};
  const auto error = [&](std::string_view hex, AllowMissing allow_missing) {
    const std::string bytes = FromHex(hex);
    BodyReader reader(bytes, 0);
    Reference reference;
    return ReadReferences(reader, files, allow_missing, {&reference, 1})
        .ToString();
  };
  const std::string missing = "00 ffffffffffffffffff01 ffffffffffffffffff01";
  EXPECT_EQ(error("01 00 00", AllowMissing::kNo),
            "DATA_LOSS: Data file id 1 is outside range [0, 1); at byte 1");
  EXPECT_EQ(error(missing, AllowMissing::kYes), "OK");
  EXPECT_EQ(error(missing, AllowMissing::kNo),
            "DATA_LOSS: Invalid offset/length pair in "
            "{file_id=\"base/\"+\"rel\", offset=18446744073709551615, "
            "length=18446744073709551615}; at byte 21");
  EXPECT_EQ(error("00 ffffffffffffffff7f 00", AllowMissing::kNo), "OK");
  EXPECT_THAT(error("00 ffffffffffffffff7f 01", AllowMissing::kNo),
              HasSubstr("Invalid offset/length pair"));
}

TEST(CheckDataFilePathTest, RefusesWhatLeavesTheDirectory) {
  for (const char* good : {"d/1f", "a", "a.b/..c/d", "lock/__lock_"}) {
    EXPECT_EQ(CheckDataFilePath(good).ToString(), "OK");
  }
  for (const char* bad : {"", "/d", "d/", "a//b", ".", "a/./b", "..", "d/../e",
                          "a\\b", "m__lock", "m__lock/d"}) {
    EXPECT_EQ(CheckDataFilePath(bad).ToString(),
              "INVALID_ARGUMENT: Invalid key: \"" + std::string(bad) + '"');
  }
  EXPECT_EQ(CheckDataFilePath(std::string_view("a\0b", 3)).code(),
            StatusCode::kInvalidArgument);
}

TEST(StatisticsTest, AddsSaturating) {
  Statistics sum{1, ~uint64_t{0} - 1, 5};
  sum.Add({2, 7, 0});
  EXPECT_EQ(sum, (Statistics{3, ~uint64_t{0}, 5}));
}

}  // namespace
}  // namespace holdfast::ocdbt
