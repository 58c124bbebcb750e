#include "formats/ocdbt/database.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "formats/ocdbt/database_test_util.h"
#include "ground/base/coding.h"
#include "ground/base/crc32c.h"

namespace holdfast::ocdbt {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Appends nodes to "d/nodes" and writes a manifest with one version.
class Crafted {
 public:
  Reference Add(const Bytes& body) {
    const Bytes object =
        *SealEnvelope(ObjectKind::kBtreeNode, body.view(), {.zstd = false});
    const Reference place{0, file_.size(), object.size()};
    file_ += object.view();
    return place;
  }

  Reference AddLeaf(const Items& items) {
    std::vector<LeafEntry> entries;
    for (const auto& [key, value] : items) {
      entries.emplace_back();
      entries.back().key = key;
      entries.back().SetInline(value);
    }
    return Add(EncodeLeafNodeBody("", entries, files_));
  }

  Reference AddInterior(uint8_t height,
                        const std::vector<ChildEntry>& children) {
    return Add(EncodeInteriorNodeBody(height, "", children, files_));
  }

  std::unique_ptr<MemoryStore> Finish(uint8_t height, const Reference& root,
                                      const Statistics& statistics) {
    Manifest manifest;
    manifest.files = files_;
    manifest.versions = {{1, height, root, statistics, 1}};
    const Bytes object = *SealEnvelope(ObjectKind::kManifest,
                                       EncodeManifestBody(manifest).view(), {});
    return StoreOf({{"manifest.ocdbt", object.ToString()}, {"d/nodes", file_}});
  }

 private:
  DataFileTable files_ = {{"d/nodes", 0}};
  std::string file_;
};

Status CheckAll(Store& store) {
  HF_ASSIGN_OR_RETURN(const auto database, Database::Open(&store, ""));
  return database->CheckAll();
}

// Returns items whose database, with small nodes, has a height > 0.
Items ManyItems(std::mt19937_64& random, size_t count) {
  Items items;
  while (items.size() < count) {
    std::string key;
    for (size_t n = random() % 12; n > 0; --n) key += "ab\xff/"[random() % 4];
    items[key] = std::string(random() % 40, static_cast<char>(random()));
  }
  return items;
}

std::unique_ptr<MemoryStore> Write(const Items& items,
                                   uint32_t max_decoded_node_bytes) {
  auto store = std::make_unique<MemoryStore>();
  BulkWriteOptions options = FixedOptions();
  options.max_decoded_node_bytes = max_decoded_node_bytes;
  options.max_inline_value_bytes = 20;
  EXPECT_TRUE(WriteItems(*store, "", items, options).ok());
  return store;
}

TEST(DatabaseTest, AbsentManifestIsNotFoundAndNamed) {
  MemoryStore store;
  const auto database = Database::Open(&store, "dir/");
  ASSERT_FALSE(database.ok());
  EXPECT_EQ(database.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(database.status().message()),
              HasSubstr("dir/manifest.ocdbt"));
}

TEST(DatabaseTest, DirectoryMustEndInSlash) {
  MemoryStore store;
  EXPECT_EQ(Database::Open(&store, "dir").status().code(),
            StatusCode::kInvalidArgument);
}

TEST(DatabaseTest, FindAgreesWithMapAtAllHeights) {
  std::mt19937_64 random(31);
  for (const uint32_t node_bytes : {120, 300, 1000, 100000}) {
    const Items items = ManyItems(random, 300);
    const auto store = Write(items, node_bytes);
    const auto database = Database::Open(store.get(), "");
    ASSERT_TRUE(database.ok()) << database.status().ToString();
    const int height = (*database)->version()->version.root_height;
    EXPECT_GE(height, node_bytes == 120 ? 3 : 0);
    EXPECT_LE(height, node_bytes == 100000 ? 0 : 255);
    Items probes = ManyItems(random, 500);
    probes.insert(items.begin(), items.end());
    for (const auto& [key, unused] : probes) {
      const auto value = (*database)->Find(key);
      const auto want = items.find(key);
      if (want == items.end()) {
        ASSERT_EQ(value.status().code(), StatusCode::kNotFound) << key;
        continue;
      }
      ASSERT_TRUE(value.ok()) << value.status().ToString();
      ASSERT_EQ(value->byte_count, want->second.size());
      ASSERT_EQ(value->is_inline, want->second.size() <= 20);
      if (!value->is_inline) continue;
      ASSERT_EQ(value->inline_value, want->second);
    }
  }
}

TEST(DatabaseTest, ForEachAgreesWithMapForRandomRanges) {
  std::mt19937_64 random(32);
  const Items items = ManyItems(random, 400);
  const auto store = Write(items, 200);
  const auto database = Database::Open(store.get(), "");
  ASSERT_TRUE(database.ok());
  const auto random_key = [&](size_t size_max) {
    std::string key;
    for (size_t n = random() % (size_max + 1); n > 0; --n) {
      key += "ab\xff/"[random() % 4];
    }
    return key;
  };
  for (int round = 0; round < 500; ++round) {
    const std::string prefix = random_key(3);
    const std::string min = random_key(5);
    const std::string max = random_key(5);
    std::vector<std::string> got;
    ASSERT_TRUE((*database)
                    ->ForEach(prefix, min, max,
                              [&](std::string_view key, const ValueRef&) {
                                got.emplace_back(key);
                                return Status();
                              })
                    .ok());
    std::vector<std::string> want;
    for (const auto& [key, unused] : items) {
      if (key.starts_with(prefix) && key >= min && (max.empty() || key < max)) {
        want.push_back(key);
      }
    }
    ASSERT_EQ(got, want);
  }
}

TEST(DatabaseTest, ForEachStopsAtFirstFailureAndCancel) {
  std::mt19937_64 random(33);
  const auto store = Write(ManyItems(random, 50), 200);
  const auto database = Database::Open(store.get(), "");
  int calls = 0;
  const Status status =
      (*database)->ForEach("", "", "", [&](std::string_view, const ValueRef&) {
        return ++calls == 7 ? UnavailableError("enough") : Status();
      });
  EXPECT_EQ(status.ToString(), "UNAVAILABLE: enough");
  EXPECT_EQ(calls, 7);
  CancelToken cancel;
  cancel.Cancel();
  EXPECT_EQ((*database)->CheckAll(&cancel).code(), StatusCode::kCancelled);
}

TEST(DatabaseTest, SmallCacheChangesNothing) {
  std::mt19937_64 random(34);
  const Items items = ManyItems(random, 200);
  const auto store = Write(items, 200);
  for (const uint64_t cache_bytes_max : {0, 1000, 5000}) {
    OpenOptions options;
    options.node_cache_bytes_max = cache_bytes_max;
    const auto database = Database::Open(store.get(), "", options);
    for (const auto& [key, value] : items) {
      const auto found = (*database)->Find(key);
      ASSERT_TRUE(found.ok());
      EXPECT_EQ(found->byte_count, value.size());
    }
  }
}

TEST(DatabaseTest, UnknownGenerationIsNotFound) {
  for (const char* name : {"ts_version_tree", "py_history"}) {
    const auto store = LoadGolden(name);
    for (const uint64_t generation : {uint64_t{0}, uint64_t{1000}}) {
      OpenOptions options;
      options.generation = generation;
      EXPECT_EQ(Database::Open(store.get(), "", options).status().code(),
                StatusCode::kNotFound);
    }
  }
}

TEST(DatabaseTest, NumberedDatabaseIgnoresForeignNames) {
  const auto store = LoadGolden("ts_numbered");
  const auto want = ReadItems(*store);
  ASSERT_TRUE(want.ok()) << want.status().ToString();
  // TensorStore ignores these: a leading letter, uppercase digits, other
  // lengths, zero.
  for (const char* name :
       {"manifest.a000000000000005", "manifest.000000000000000A",
        "manifest.00000000000000005", "manifest.0000000000000000"}) {
    Set(*store, name, "no manifest");
  }
  EXPECT_EQ(*ReadItems(*store), *want);
}

TEST(DatabaseTest, NumberedDatabaseWithoutCommitIsEmpty) {
  const auto store = LoadGolden("ts_numbered");
  for (int i = 1; i <= 4; ++i) {
    ASSERT_TRUE(
        store->Delete("manifest.000000000000000" + std::to_string(i)).ok());
  }
  EXPECT_EQ(ReadItems(*store)->size(), 0u);
  const auto database = Database::Open(store.get(), "");
  EXPECT_EQ((*database)->Find("n0").status().code(), StatusCode::kNotFound);
}

TEST(DatabaseTest, WrongStatisticsAreReported) {
  for (const int field : {0, 1, 2}) {
    Crafted crafted;
    const Reference root = crafted.AddLeaf({{"k", "v"}});
    Statistics statistics{1, root.byte_count, 0};
    if (field == 0) statistics.key_count = 2;
    if (field == 1) ++statistics.tree_byte_count;
    if (field == 2) ++statistics.indirect_value_byte_count;
    EXPECT_THAT(CheckAll(*crafted.Finish(0, root, statistics)).ToString(),
                StartsWith("DATA_LOSS: B-tree statistics"));
  }
}

TEST(DatabaseTest, MoreKeysThanStatedStopsTheWalk) {
  Crafted crafted;
  const Reference root = crafted.AddLeaf({{"a", ""}, {"b", ""}});
  EXPECT_THAT(
      CheckAll(*crafted.Finish(0, root, {1, root.byte_count, 0})).ToString(),
      StartsWith("DATA_LOSS: B-tree has more keys than num_keys=1"));
}

// Each of 60 levels refers twice to the level below: 2^60 keys in 5 KB, with
// consistent statistics.
TEST(DatabaseTest, SharedNodesDoNotExplode) {
  Crafted crafted;
  Reference node = crafted.AddLeaf({{"", ""}});
  Statistics statistics{1, node.byte_count, 0};
  for (uint8_t height = 1; height <= 60; ++height) {
    std::vector<ChildEntry> children(2);
    children[0].key = "a";
    children[1].key = "b";
    for (ChildEntry& child : children) {
      child.subtree_prefix_byte_count = 1;
      child.node = node;
      child.statistics = statistics;
    }
    node = crafted.AddInterior(height, children);
    statistics.Add(statistics);
    statistics.Add({0, node.byte_count, 0});
  }
  const auto store = crafted.Finish(60, node, statistics);
  OpenOptions options;
  options.keys_max = 1000;
  const auto database = Database::Open(store.get(), "", options);
  ASSERT_TRUE(database.ok());
  EXPECT_TRUE((*database)->Find(std::string(60, 'b')).ok());
  int calls = 0;
  const Status status =
      (*database)->ForEach("", "", "", [&](std::string_view, const ValueRef&) {
        ++calls;
        return Status();
      });
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_EQ(calls, 1000);
}

TEST(DatabaseTest, FullKeyLengthIsLimited) {
  Crafted crafted;
  const Reference leaf = crafted.AddLeaf({{std::string(40000, 'k'), ""}});
  ChildEntry child;
  const std::string key(30000, 'p');
  child.key = key;
  child.subtree_prefix_byte_count = 30000;
  child.node = leaf;
  child.statistics = {1, leaf.byte_count, 0};
  const Reference root = crafted.AddInterior(1, {child});
  const auto store =
      crafted.Finish(1, root, {1, leaf.byte_count + root.byte_count, 0});
  EXPECT_THAT(CheckAll(*store).ToString(),
              HasSubstr("Full key length 70000 exceeds limit of 65535"));
}

// No memory may be allocated for a hostile length.
TEST(DatabaseTest, HugeNodeLengthIsOutOfRange) {
  Crafted crafted;
  crafted.AddLeaf({{"a", ""}});
  const auto store = crafted.Finish(0, {0, 0, uint64_t{1} << 62}, {1, 1, 0});
  EXPECT_THAT(CheckAll(*store).ToString(),
              HasSubstr("Requested byte range [0, 4611686018427387904) is not "
                        "valid for value of size"));
  EXPECT_EQ(CheckAll(*store).code(), StatusCode::kOutOfRange);
}

TEST(DatabaseTest, EmptyIndirectValueIsReadWithoutFile) {
  Crafted crafted;
  LeafEntry entry;
  entry.key = "k";
  entry.SetIndirect({0, 5, 0});
  const Reference root =
      crafted.Add(EncodeLeafNodeBody("", {&entry, 1}, {{"", 0}}));
  const auto store = crafted.Finish(0, root, {1, root.byte_count, 0});
  const auto items = ReadItems(*store);
  ASSERT_TRUE(items.ok()) << items.status().ToString();
  EXPECT_EQ(*items, (Items{{"k", ""}}));
}

// Checks that a damaged database is refused or still gives `want`. REQUIRES: no
// indirect values, whose damage nothing would notice.
void ExpectErrorOrSame(const Items& objects, const Items& want) {
  const auto store = StoreOf(objects);
  const auto items = ReadItems(*store);
  EXPECT_TRUE(!items.ok() || *items == want);
}

TEST(DatabaseTest, EveryTruncationIsFoundOrHarmless) {
  std::mt19937_64 random(35);
  const Items items = ManyItems(random, 25);
  const Items objects = Contents(*Write(items, 300));
  for (const auto& [name, bytes] : objects) {
    for (size_t size = 0; size < bytes.size(); ++size) {
      Items damaged = objects;
      damaged[name].resize(size);
      ExpectErrorOrSame(damaged, items);
      EXPECT_FALSE(ReadItems(*StoreOf(damaged)).ok()) << name << " " << size;
    }
  }
}

TEST(DatabaseTest, EverySingleByteChangeIsFoundOrHarmless) {
  std::mt19937_64 random(36);
  Items items = ManyItems(random, 25);
  for (auto& [key, value] : items) value.resize(5);  // all inline
  const Items objects = Contents(*Write(items, 300));
  for (const auto& [name, bytes] : objects) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      for (const int change : {1, 0x80, 0xff}) {
        Items damaged = objects;
        damaged[name][i] = static_cast<char>(bytes[i] ^ change);
        ExpectErrorOrSame(damaged, items);
      }
    }
  }
}

// Like the test above, but the checksum is corrected, so that the damage gets
// further.
TEST(DatabaseTest, ChangesBehindAGoodChecksumAreHandled) {
  std::mt19937_64 random(37);
  const Items items = ManyItems(random, 30);
  MemoryStore raw;
  BulkWriteOptions options = FixedOptions();
  options.compress_nodes = false;
  ASSERT_TRUE(WriteItems(raw, "", items, options).ok());
  const Items objects = Contents(raw);
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    Items damaged = objects;
    std::string& object = damaged["manifest.ocdbt"];
    const size_t i = 12 + random() % (object.size() - 16);
    object[i] = static_cast<char>(random());
    StoreLittle<uint32_t>(
        object.data() + object.size() - 4,
        Crc32c(std::string_view(object).substr(0, object.size() - 4)));
    if (!ReadItems(*StoreOf(damaged)).ok()) ++refused;
  }
  EXPECT_GT(refused, 2000);
}

}  // namespace
}  // namespace holdfast::ocdbt
