#include "formats/ocdbt/entry_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "formats/ocdbt/database_test_util.h"

namespace holdfast::ocdbt {
namespace {

TEST(SortByKeyTest, AgreesWithSortedStrings) {
  std::mt19937_64 random(61);
  for (int round = 0; round < 500; ++round) {
    const std::string stem(random() % 12, 's');
    std::vector<std::string> keys(random() % 40);
    for (std::string& key : keys) {
      key = stem;
      for (size_t n = random() % 14; n > 0; --n) {
        key += std::string("\0a\x7f\xff", 4)[random() % 4];
      }
    }
    std::vector<LeafEntry> entries(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      entries[i].key = keys[i];
      entries[i].value_byte_count = keys[i].size();
    }
    SortByKey(entries);
    std::vector<std::string> want = keys;
    std::sort(want.begin(), want.end());
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(entries[i].key, want[i]);
      ASSERT_EQ(entries[i].value_byte_count, want[i].size());
    }
  }
}

TEST(TextArenaTest, PiecesStayWhereTheyAre) {
  TextArena arena;
  std::mt19937_64 random(62);
  std::vector<std::pair<std::string, std::string_view>> pieces;
  for (int i = 0; i < 3000; ++i) {
    std::string text(random() % (i % 100 == 0 ? 2000000 : 2000),
                     static_cast<char>(random()));
    const std::string_view copy = arena.Copy(text);
    pieces.emplace_back(std::move(text), copy);
  }
  for (const auto& [text, copy] : pieces) ASSERT_EQ(copy, text);
}

TEST(ReadAllEntriesTest, OutlivesDatabaseAndStore) {
  EntryList list;
  {
    const auto store = LoadGolden("ts_merge");
    const auto database = Database::Open(store.get(), "");
    auto entries = ReadAllEntries(**database);
    ASSERT_TRUE(entries.ok());
    list = std::move(entries).value();
  }
  ASSERT_EQ(list.entries.size(), 5u);
  EXPECT_EQ(list.entries[0].key, "only0");
  EXPECT_EQ(list.entries[0].inline_value(), "x");
  ASSERT_EQ(list.files.size(), 2u);
  EXPECT_EQ(list.files[list.entries[4].file_index].base(), "ocdbt.process_1/");
}

TEST(ReadAllEntriesTest, PathsStartAtTheDirectory) {
  const auto golden = LoadGolden("ts_merge");
  MemoryStore store;
  for (const auto& [key, value] : Contents(*golden)) {
    Set(store, "some/where/" + key, value);
  }
  const auto database = Database::Open(&store, "some/where/");
  const auto list = ReadAllEntries(**database);
  ASSERT_TRUE(list.ok());
  for (const DataFile& file : list->files) {
    EXPECT_EQ(file.path.find("ocdbt.process_"), 0u);
    EXPECT_EQ(file.base().size(), 16u);
  }
}

}  // namespace
}  // namespace holdfast::ocdbt
