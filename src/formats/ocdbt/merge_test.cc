#include "formats/ocdbt/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "formats/ocdbt/database_test_util.h"

namespace holdfast::ocdbt {
namespace {

using ::testing::StartsWith;

constexpr char kOne[] = "ocdbt.process_0/";
constexpr char kTwo[] = "ocdbt.process_1/";
constexpr char kThree[] = "ocdbt.process_replica_xyz/";

// Returns three disjoint sets with values of all kinds.
std::vector<Items> MakeItems(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Items> sets(3);
  for (int i = 0; i < 120; ++i) {
    std::string value(
        random() % 3 == 0 ? 2000 + random() % 500 : random() % 300,
        static_cast<char>(random()));
    sets[random() % 3]["key." + std::to_string(random() % 100000)] = value;
  }
  for (const auto& [key, value] : sets[0]) sets[1].erase(key);
  for (int i : {0, 1}) {
    for (const auto& [key, value] : sets[i]) sets[2].erase(key);
  }
  return sets;
}

Items Union(const std::vector<Items>& sets) {
  Items all;
  for (const Items& items : sets) all.insert(items.begin(), items.end());
  return all;
}

TEST(MergeTest, ParentHasAllKeysAndRefersToChildren) {
  MemoryStore store;
  const std::vector<Items> sets = MakeItems(51);
  int i = 0;
  for (const char* child : {kOne, kTwo, kThree}) {
    BulkWriteOptions options = FixedOptions(static_cast<char>('a' + i));
    options.target_data_file_bytes = 7000;
    ASSERT_TRUE(
        WriteItems(store, std::string("dir/") + child, sets[i++], options)
            .ok());
  }
  const auto summary =
      MergeDatabases(&store, "dir/", {kOne, kTwo, kThree}, FixedOptions('e'));
  ASSERT_TRUE(summary.ok()) << summary.status().ToString();
  const auto items = ReadItems(store, "dir/");
  ASSERT_TRUE(items.ok()) << items.status().ToString();
  EXPECT_EQ(*items, Union(sets));
  // The parent's only file holds just its root.
  ASSERT_EQ(summary->files.size(), 1u);
  EXPECT_EQ(summary->files[0].byte_count, summary->node_byte_count);
  EXPECT_EQ(summary->tree_height, 0);

  const auto database = Database::Open(&store, "dir/");
  EXPECT_EQ((*database)->version()->version.generation, 1u);
  bool seen = false;
  ASSERT_TRUE((*database)
                  ->ForEach("", "", "",
                            [&](std::string_view, const ValueRef& value) {
                              if (value.is_inline) return Status();
                              seen = true;
                              EXPECT_THAT(std::string(value.file),
                                          StartsWith("dir/ocdbt.process_"));
                              EXPECT_EQ(value.file.substr(
                                            value.file_base_byte_count, 2),
                                        "d/");
                              return Status();
                            })
                  .ok());
  EXPECT_TRUE(seen);
}

TEST(MergeTest, KnownEntriesGiveTheSameBytes) {
  const std::vector<Items> sets = MakeItems(52);
  std::vector<MergeChild> children;
  MemoryStore known;
  MemoryStore read;
  int i = 0;
  for (const char* child : {kOne, kTwo, kThree}) {
    auto summary = WriteItems(known, child, sets[i],
                              FixedOptions(static_cast<char>('a' + i)));
    ASSERT_TRUE(WriteItems(read, child, sets[i],
                           FixedOptions(static_cast<char>('a' + i)))
                    .ok());
    ++i;
    children.push_back({child, std::move(summary->entries)});
  }
  BulkWriteOptions options = FixedOptions('e');
  options.max_decoded_node_bytes = 2000;
  ASSERT_TRUE(MergeEntries(&known, "", std::move(children), options).ok());
  options.new_file_name = FixedOptions('e').new_file_name;
  ASSERT_TRUE(MergeDatabases(&read, "", {kOne, kTwo, kThree}, options).ok());
  EXPECT_EQ(Contents(known), Contents(read));
  EXPECT_EQ(*ReadItems(known), Union(sets));
}

TEST(MergeTest, LongInlineValuesMoveToTheParent) {
  MemoryStore store;
  const Items items = {{"a", std::string(50, 'a')},
                       {"b", std::string(500, 'b')},
                       {"c", std::string(5000, 'c')}};
  ASSERT_TRUE(WriteItems(store, kOne, items, FixedOptions('a')).ok());
  BulkWriteOptions options = FixedOptions('e');
  options.max_inline_value_bytes = 100;
  const auto summary = MergeDatabases(&store, "", {kOne}, options);
  ASSERT_TRUE(summary.ok()) << summary.status().ToString();
  EXPECT_EQ(*ReadItems(store), items);
  const auto database = Database::Open(&store, "");
  EXPECT_TRUE((*database)->Find("a")->is_inline);
  EXPECT_EQ((*database)->Find("b")->file, summary->files[0].path);
  EXPECT_THAT(std::string((*database)->Find("c")->file), StartsWith(kOne));
}

TEST(MergeTest, NestedMergesAccumulateBasePaths) {
  MemoryStore store;
  const std::vector<Items> sets = MakeItems(53);
  ASSERT_TRUE(WriteItems(store, "inner/one/", sets[0], FixedOptions('a')).ok());
  ASSERT_TRUE(WriteItems(store, "inner/two/", sets[1], FixedOptions('b')).ok());
  ASSERT_TRUE(WriteItems(store, "three/", sets[2], FixedOptions('c')).ok());
  auto inner =
      MergeDatabases(&store, "inner/", {"one/", "two/"}, FixedOptions('e'));
  ASSERT_TRUE(inner.ok()) << inner.status().ToString();
  ASSERT_TRUE(
      MergeDatabases(&store, "", {"inner/", "three/"}, FixedOptions('f')).ok());
  EXPECT_EQ(*ReadItems(store), Union(sets));

  const auto database = Database::Open(&store, "");
  std::set<std::string> bases;
  ASSERT_TRUE((*database)
                  ->ForEach("", "", "",
                            [&](std::string_view, const ValueRef& value) {
                              if (!value.is_inline) {
                                bases.emplace(value.file.substr(
                                    0, value.file_base_byte_count));
                              }
                              return Status();
                            })
                  .ok());
  EXPECT_THAT(bases,
              ::testing::ElementsAre("inner/one/", "inner/two/", "three/"));

  // The summary of a merge can be used for the next merge.
  MemoryStore again = MemoryStore();
  for (const auto& [key, value] : Contents(store)) {
    if (key.find('/') != std::string::npos) Set(again, key, value);
  }
  std::vector<MergeChild> children;
  children.push_back({"inner/", std::move(inner->entries)});
  ASSERT_TRUE(
      MergeEntries(&again, "", std::move(children), FixedOptions('9')).ok());
  EXPECT_EQ(*ReadItems(again), Union({sets[0], sets[1]}));
}

TEST(MergeTest, OnlyNewestVersionIsMerged) {
  const auto store = LoadGolden("ts_version_tree");
  MemoryStore parent;
  for (const auto& [key, value] : Contents(*store)) {
    Set(parent, "child/" + key, value);
  }
  ASSERT_TRUE(MergeDatabases(&parent, "", {"child/"}, FixedOptions()).ok());
  EXPECT_EQ(*ReadItems(parent), *ReadItems(*store));
}

TEST(MergeTest, DuplicateKeyNamesBothChildren) {
  MemoryStore store;
  ASSERT_TRUE(
      WriteItems(store, kOne, {{"a", "1"}, {"b", "1"}}, FixedOptions('a'))
          .ok());
  ASSERT_TRUE(WriteItems(store, kTwo, {{"c", "1"}}, FixedOptions('b')).ok());
  ASSERT_TRUE(
      WriteItems(store, kThree, {{"b", "1"}, {"d", "1"}}, FixedOptions('c'))
          .ok());
  const auto merged =
      MergeDatabases(&store, "", {kOne, kTwo, kThree}, FixedOptions('e'));
  ASSERT_FALSE(merged.ok());
  EXPECT_EQ(merged.status().ToString(),
            "INVALID_ARGUMENT: Key \"b\" is in more than one database: "
            "\"ocdbt.process_0/\" and \"ocdbt.process_replica_xyz/\"");
  EXPECT_EQ(store.Stat("manifest.ocdbt").status().code(),
            StatusCode::kNotFound);
}

TEST(MergeTest, MissingChildIsNotFound) {
  MemoryStore store;
  EXPECT_EQ(
      MergeDatabases(&store, "", {"absent/"}, FixedOptions()).status().code(),
      StatusCode::kNotFound);
}

TEST(MergeTest, EmptyChildrenGiveEmptyParent) {
  MemoryStore store;
  ASSERT_TRUE(WriteItems(store, kOne, {}, FixedOptions('a')).ok());
  ASSERT_TRUE(MergeDatabases(&store, "", {kOne}, FixedOptions('e')).ok());
  EXPECT_TRUE(ReadItems(store)->empty());
}

}  // namespace
}  // namespace holdfast::ocdbt
