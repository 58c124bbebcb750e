#include "formats/ocdbt/append.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "formats/ocdbt/database_test_util.h"
#include "twins/fault_store.h"

namespace holdfast::ocdbt {
namespace {

std::vector<AppendEntry> Entries(const Items& items) {
  std::vector<AppendEntry> entries;
  for (const auto& [key, value] : items) {
    entries.push_back(BorrowEntry(key, value));
  }
  return entries;
}

Status AppendItems(Store& store, const Items& items,
                   const BulkWriteOptions& options = FixedOptions('b'),
                   std::string_view removed_start = "") {
  return AppendEntries(&store, "dir/", Entries(items), options,
                       [=](std::string_view key) {
                         return !removed_start.empty() &&
                                key.starts_with(removed_start);
                       })
      .status();
}

const Items& OldItems() {
  static const Items* const items =
      new Items{{"a", "inline"}, {"b", std::string(3000, 'b')}, {"c.x", "1"}};
  return *items;
}

TEST(AppendTest, MakesANewDatabase) {
  MemoryStore store;
  ASSERT_TRUE(AppendItems(store, OldItems()).ok());
  EXPECT_EQ(*ReadItems(store, "dir/"), OldItems());
  const auto database = Database::Open(&store, "dir/");
  EXPECT_EQ((*database)->version()->version.generation, 1u);
}

TEST(AppendTest, AddsAndReplacesAsOneMoreGeneration) {
  MemoryStore store;
  ASSERT_TRUE(WriteItems(store, "dir/", OldItems(), FixedOptions('a')).ok());
  const Items before = Contents(store);
  ASSERT_TRUE(
      AppendItems(store, {{"a", std::string(2000, 'A')}, {"aa", ""}}).ok());
  Items expected = OldItems();
  expected["a"] = std::string(2000, 'A');
  expected["aa"] = "";
  EXPECT_EQ(*ReadItems(store, "dir/"), expected);
  // Old data files are unchanged: values that stayed are not written again.
  for (const auto& [key, value] : before) {
    if (key == "dir/manifest.ocdbt") continue;
    EXPECT_EQ(Contents(store)[key], value);
  }
  const auto now = Database::Open(&store, "dir/");
  EXPECT_EQ((*now)->version()->version.generation, 2u);
  EXPECT_EQ((*now)->Find("b")->file, "dir/d/" + std::string(31, 'a') + "0");
  const auto old = Database::Open(&store, "dir/", {.generation = 1});
  EXPECT_EQ(*ReadItems(**old), OldItems());
}

TEST(AppendTest, RemovedKeysGoBeforeNewOnesCome) {
  MemoryStore store;
  ASSERT_TRUE(AppendItems(store, OldItems()).ok());
  ASSERT_TRUE(AppendItems(store, {{"c.y", "2"}}, FixedOptions('d'), "c.").ok());
  Items expected = OldItems();
  expected.erase("c.x");
  expected["c.y"] = "2";
  EXPECT_EQ(*ReadItems(store, "dir/"), expected);
}

TEST(AppendTest, AnEmptyGenerationCanBeFollowed) {
  MemoryStore store;
  ASSERT_TRUE(AppendItems(store, {{"a", "1"}}).ok());
  ASSERT_TRUE(AppendItems(store, {}, FixedOptions('e'), "a").ok());
  EXPECT_TRUE(ReadItems(store, "dir/")->empty());
  ASSERT_TRUE(AppendItems(store, {{"z", "3"}}, FixedOptions('f')).ok());
  EXPECT_EQ(*ReadItems(store, "dir/"), (Items{{"z", "3"}}));
}

TEST(AppendTest, TheDatabasesOwnConfigurationStaysInForce) {
  MemoryStore store;
  BulkWriteOptions options = FixedOptions('a');
  options.max_inline_value_bytes = 10;
  ASSERT_TRUE(WriteItems(store, "dir/", OldItems(), options).ok());
  ASSERT_TRUE(AppendItems(store, {{"k", std::string(11, 'k')}}).ok());
  const auto database = Database::Open(&store, "dir/");
  EXPECT_FALSE((*database)->Find("k")->is_inline);
  EXPECT_EQ((*database)->manifest().config.uuid, (Uuid{1, 2, 3}));
}

// Two bits: lists of four generations, so that nodes of heights 0, 1 and 2 are
// created, filled and moved upwards.
TEST(AppendTest, ManyGenerationsGoToTheVersionTree) {
  MemoryStore store;
  BulkWriteOptions options = FixedOptions('a');
  options.version_tree_arity_log2 = 2;
  Items expected;
  for (int i = 1; i <= 150; ++i) {
    const std::string key = std::to_string(i);
    ASSERT_TRUE(AppendItems(store, {{key, key}}, options).ok()) << i;
    expected[key] = key;
    const auto database = Database::Open(&store, "dir/");
    ASSERT_TRUE(database.ok()) << i << database.status().ToString();
    const auto versions = (*database)->Versions();
    ASSERT_TRUE(versions.ok()) << i << versions.status().ToString();
    ASSERT_EQ(versions->size(), static_cast<size_t>(i));
    for (int j = 0; j < i; ++j) {
      ASSERT_EQ((*versions)[j].version.generation,
                static_cast<uint64_t>(j + 1));
      ASSERT_EQ((*versions)[j].version.statistics.key_count,
                static_cast<uint64_t>(j + 1));
    }
  }
  EXPECT_EQ(*ReadItems(store, "dir/"), expected);
}

TEST(AppendTest, GoesOnWhereTensorStoreStopped) {
  const auto store = LoadGolden("ts_version_tree");
  Items expected = *ReadItems(*store);
  const uint64_t generation =
      (*Database::Open(store.get(), ""))->version()->version.generation;
  for (int i = 0; i < 40; ++i) {
    const std::string key = "new" + std::to_string(i);
    const Items added = {{key, key}};
    ASSERT_TRUE(AppendEntries(store.get(), "", Entries(added),
                              BulkWriteOptions{.sync = false})
                    .ok());
    expected[key] = key;
  }
  EXPECT_EQ(*ReadItems(*store), expected);
  EXPECT_EQ((*Database::Open(store.get(), ""))->version()->version.generation,
            generation + 40);
}

TEST(AppendTest, EveryFailureKeepsTheOldGeneration) {
  Items expected = OldItems();
  expected["new"] = std::string(2000, 'n');
  uint64_t k = 1;
  for (;; ++k) {
    FaultStore store;
    ASSERT_TRUE(WriteItems(store, "dir/", OldItems(), FixedOptions('a')).ok());
    store.SetFaults({.fail_at = k});
    BulkWriteOptions options = FixedOptions('b');
    options.sync = true;
    const Status status =
        AppendItems(store, {{"new", expected["new"]}}, options);
    store.SetFaults({});
    if (status.ok()) break;
    EXPECT_THAT(std::string(status.message()),
                ::testing::HasSubstr("injected"));
    const Items after = *ReadItems(store, "dir/");
    EXPECT_TRUE(after == OldItems() || after == expected) << k;
  }
  EXPECT_GT(k, 6u);  // a read, create, write, finish, sync, manifest, sync
}

TEST(AppendTest, CrashLeavesOneOfTheTwoGenerations) {
  Items expected = OldItems();
  expected["new"] = std::string(2000, 'n');
  int old_count = 0;
  for (uint64_t k = 1; k <= 12; ++k) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      FaultStore store;
      BulkWriteOptions options = FixedOptions('a');
      options.sync = true;
      ASSERT_TRUE(WriteItems(store, "dir/", OldItems(), options).ok());
      store.SetFaults(
          {.seed = seed, .fail_at = k, .sticky = true, .torn_writes = true});
      options.new_file_name = FixedOptions('b').new_file_name;
      const Status status =
          AppendItems(store, {{"new", expected["new"]}}, options);
      const auto after = store.AfterCrash(seed);
      const auto items = ReadItems(*after, "dir/");
      ASSERT_TRUE(items.ok()) << k << items.status().ToString();
      EXPECT_TRUE(!status.ok() || *items == expected) << k;
      EXPECT_TRUE(*items == OldItems() || *items == expected) << k;
      old_count += *items == OldItems();
    }
  }
  EXPECT_GT(old_count, 0);
}

TEST(AppendTest, RefusesWhatItCannotKeep) {
  MemoryStore store;
  ASSERT_TRUE(AppendItems(store, OldItems()).ok());
  const Items before = Contents(store);
  std::vector<AppendEntry> twice;
  twice.push_back(BorrowEntry("k", "1"));
  twice.push_back(BorrowEntry("k", "2"));
  EXPECT_EQ(AppendEntries(&store, "dir/", twice, FixedOptions('b'))
                .status()
                .ToString(),
            "INVALID_ARGUMENT: Key \"k\" is given twice");
  const std::string long_key(65536, 'k');
  std::vector<AppendEntry> too_long;
  too_long.push_back(BorrowEntry(long_key, "1"));
  EXPECT_EQ(AppendEntries(&store, "dir/", too_long, FixedOptions('b'))
                .status()
                .ToString(),
            "INVALID_ARGUMENT: Key of 65536 bytes exceeds limit of 65535");
  EXPECT_EQ(Contents(store), before);
}

}  // namespace
}  // namespace holdfast::ocdbt
