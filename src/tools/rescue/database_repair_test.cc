#include "tools/rescue/database_repair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "formats/ocdbt/append.h"
#include "formats/ocdbt/database_test_util.h"

namespace holdfast {
namespace {

using ocdbt::DataFile;
using ocdbt::Items;
using ::testing::Contains;
using ::testing::HasSubstr;

// A node of an undamaged database.
struct NodeExtent {
  std::string file;
  uint64_t begin = 0;
  uint64_t end = 0;

  auto operator<=>(const NodeExtent&) const = default;
};

using Paths = std::map<std::string, std::vector<NodeExtent>>;

// Adds to `paths` the nodes on the path to each key, root first.
void WalkNodes(Store& store, const DataFile& file, uint64_t offset,
               uint64_t byte_count, const std::string& implied,
               std::vector<NodeExtent> way, Paths& paths) {
  way.push_back({file.path, offset, offset + byte_count});
  const auto node = ocdbt::DecodeBtreeNode(
      *store.Read(file.path, {offset, byte_count}), file.base());
  ASSERT_TRUE(node.ok()) << node.status().ToString();
  const std::string prefix = implied + std::string(node->key_prefix);
  for (const ocdbt::LeafEntry& leaf : node->leaves) {
    paths[prefix + std::string(leaf.key)] = way;
  }
  for (const ocdbt::ChildEntry& child : node->children) {
    WalkNodes(store, node->files[child.node.file_index], child.node.offset,
              child.node.byte_count,
              (prefix + std::string(child.key))
                  .substr(0, implied.size() + child.subtree_prefix_byte_count),
              way, paths);
  }
}

Paths PathsOf(Store& store, const std::string& directory) {
  Paths paths;
  const auto database = ocdbt::Database::Open(&store, directory);
  EXPECT_TRUE(database.ok());
  const ocdbt::VersionRecord& version = *(*database)->version();
  WalkNodes(store, version.root_file, version.version.root.offset,
            version.version.root.byte_count, "", {}, paths);
  return paths;
}

// Returns the keys and values of a repaired database. The values may be in the
// old data files.
Items RepairedItems(const RepairedDatabase& repaired, MemoryStore& files) {
  auto all = ocdbt::StoreOf(ocdbt::Contents(files));
  if (repaired.files == nullptr) return {};
  for (const auto& [key, value] : ocdbt::Contents(*repaired.files)) {
    ocdbt::Set(*all, key, value);
  }
  Items items;
  const auto database = ocdbt::Database::Open(all.get(), "");
  EXPECT_TRUE(database.ok()) << database.status().ToString();
  EXPECT_TRUE(
      (*database)
          ->ForEach("", "", "",
                    [&](std::string_view key, const ocdbt::ValueRef& value) {
                      const auto bytes =
                          value.is_inline ? Result<Bytes>(value.InlineBytes())
                                          : ocdbt::ReadFileRange(
                                                *all, value.file, value.offset,
                                                value.byte_count);
                      items[std::string(key)] =
                          bytes.ok() ? bytes->ToString() : "unreadable";
                      return Status();
                    })
          .ok());
  return items;
}

class RandomDatabase {
 public:
  explicit RandomDatabase(uint64_t seed) : random_(seed) {
    const char* const groups[] = {"params.layer_", "opt.mu.layer_", "x"};
    for (int process = 0; process < 2; ++process) {
      Items items;
      for (size_t i = 1 + random_() % 60; i > 0; --i) {
        const std::string name = groups[random_() % 3] +
                                 std::to_string(random_() % 12) + "_" +
                                 std::to_string(process);
        names_.insert(name);
        items[name + "/.zarray"] = "{" + name + "}";
        items[name + "/" + std::to_string(random_() % 5)] = std::string(
            random_() % 90, static_cast<char>('a' + random_() % 26));
      }
      all_.insert(items.begin(), items.end());
      ocdbt::BulkWriteOptions options =
          ocdbt::FixedOptions(static_cast<char>('a' + process));
      options.max_decoded_node_bytes = 300 + random_() % 3000;
      options.max_inline_value_bytes = 40;
      const std::string directory =
          "ocdbt.process_" + std::to_string(process) + "/";
      EXPECT_TRUE(ocdbt::WriteItems(store_, directory, items, options).ok());
    }
    ocdbt::BulkWriteOptions options = ocdbt::FixedOptions('c');
    options.max_decoded_node_bytes = 300 + random_() % 3000;
    EXPECT_TRUE(ocdbt::MergeDatabases(&store_, "",
                                      {"ocdbt.process_0/", "ocdbt.process_1/"},
                                      options)
                    .ok());
    for (const std::string& directory : kDirectories) {
      paths_[directory] = PathsOf(store_, directory);
    }
  }

  // Flips bits of random files, and truncates or removes files.
  void Damage() {
    for (size_t i = 1 + random_() % 3; i > 0; --i) {
      Items files = ocdbt::Contents(store_);
      auto file = files.begin();
      std::advance(file, random_() % files.size());
      std::string content = file->second;
      const size_t at = content.empty() ? 0 : random_() % content.size();
      switch (random_() % 3) {
        case 0:
          damaged_.push_back({file->first, 0, UINT64_MAX});
          EXPECT_TRUE(store_.Delete(file->first).ok());
          continue;
        case 1:
          damaged_.push_back({file->first, at, UINT64_MAX});
          content.resize(at);
          break;
        default:
          if (content.empty()) continue;
          damaged_.push_back({file->first, at, at + 1});
          content[at] ^= static_cast<char>(1 << random_() % 8);
      }
      ocdbt::Set(store_, file->first, content);
    }
  }

  bool IsWhole(const NodeExtent& extent) const {
    return std::ranges::none_of(damaged_, [&](const NodeExtent& damage) {
      return damage.file == extent.file && damage.begin < extent.end &&
             extent.begin < damage.end;
    });
  }

  // Returns true if some database leads to the key through intact nodes only.
  bool IsReachable(const std::string& key) const {
    return std::ranges::any_of(paths_, [&](const auto& database) {
      const auto way = database.second.find(key);
      return way != database.second.end() &&
             std::ranges::all_of(way->second, [&](const NodeExtent& node) {
               return IsWhole(node);
             });
    });
  }

  bool ReadsAsItIs() const {
    return IsWhole({"manifest.ocdbt", 0, 1 << 20}) &&
           std::ranges::all_of(paths_.at(""), [&](const auto& way) {
             return std::ranges::all_of(
                 way.second,
                 [&](const NodeExtent& node) { return IsWhole(node); });
           });
  }

  MemoryStore& store() { return store_; }
  const Items& all() const { return all_; }
  std::vector<std::string> names() const {
    return {names_.begin(), names_.end()};
  }

 private:
  const std::string kDirectories[3] = {"", "ocdbt.process_0/",
                                       "ocdbt.process_1/"};
  std::mt19937_64 random_;
  MemoryStore store_;
  Items all_;
  std::set<std::string> names_;
  std::map<std::string, Paths> paths_;
  std::vector<NodeExtent> damaged_;
};

TEST(DatabaseRepairTest, FindsEveryKeyThatWholeNodesLeadTo) {
  int repaired_count = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomDatabase database(seed);
    database.Damage();
    DatabaseEvidence evidence{&database.store(), &database.store(), {}};
    if (seed % 2 == 0) evidence.array_names = database.names();
    const auto repaired = RepairDatabase(evidence);
    ASSERT_TRUE(repaired.ok()) << repaired.status().ToString();
    ASSERT_EQ(!repaired->has_value(), database.ReadsAsItIs());
    if (!repaired->has_value()) continue;
    ++repaired_count;
    const Items got = RepairedItems(**repaired, database.store());
    for (const auto& [key, value] : database.all()) {
      if (database.IsReachable(key)) {
        EXPECT_TRUE(got.contains(key)) << key;
      }
    }
    for (const auto& [key, value] : got) {
      const auto want = database.all().find(key);
      ASSERT_NE(want, database.all().end()) << key;
      // A value may be damaged; other code detects that.
      if (value.size() != want->second.size()) {
        EXPECT_EQ(value, "unreadable") << key;
      }
    }
  }
  EXPECT_GT(repaired_count, 100);
}

Items Numbered(const std::string& value) {
  Items items;
  for (int i = 0; i < 40; ++i) {
    items["params.layer_" + std::to_string(100 + i) + "/0"] = value;
  }
  return items;
}

// The nodes of the lowest level lack the common prefix of their keys.
TEST(DatabaseRepairTest, LeavesBelowALostRootAreNotTakenForRoots) {
  MemoryStore store;
  ocdbt::BulkWriteOptions options = ocdbt::FixedOptions();
  options.max_decoded_node_bytes = 600;
  ASSERT_TRUE(ocdbt::WriteItems(store, "", Numbered("v"), options).ok());
  const Paths paths = PathsOf(store, "");
  const NodeExtent root = paths.begin()->second.front();
  ASSERT_GT(paths.begin()->second.size(), 1u);
  Items files = ocdbt::Contents(store);
  files.erase("manifest.ocdbt");
  files[root.file][root.begin + 20] ^= 1;
  for (const bool knows_names : {false, true}) {
    const auto torn = ocdbt::StoreOf(files);
    DatabaseEvidence evidence{torn.get(), torn.get(), {}};
    if (knows_names) evidence.array_names = {"params.layer_100"};
    const auto repaired = RepairDatabase(evidence);
    ASSERT_TRUE(repaired.ok() && repaired->has_value());
    EXPECT_EQ((*repaired)->key_count, 0u);
    EXPECT_THAT((*repaired)->notes, Contains(HasSubstr("lack their start")));
  }
}

TEST(DatabaseRepairTest, TheNewestGenerationOfTheManifestCounts) {
  MemoryStore store;
  ASSERT_TRUE(
      ocdbt::WriteItems(store, "", Numbered("old"), ocdbt::FixedOptions())
          .ok());
  ocdbt::BulkWriteOptions options = ocdbt::FixedOptions('b');
  const std::string key = "params.layer_100/0";
  const ocdbt::AppendEntry entry = ocdbt::BorrowEntry(key, "new");
  ASSERT_TRUE(ocdbt::AppendEntries(&store, "", {&entry, 1}, options).ok());
  EXPECT_FALSE(RepairDatabase({&store, &store, {}})->has_value());
  // Without the manifest, nothing says which of the two values is newer.
  ASSERT_TRUE(store.Delete("manifest.ocdbt").ok());
  const auto repaired = RepairDatabase({&store, &store, {}});
  ASSERT_TRUE(repaired.ok() && repaired->has_value());
  const Items got = RepairedItems(**repaired, store);
  EXPECT_FALSE(got.contains(key));
  EXPECT_EQ(got.size(), 39u);
  EXPECT_EQ(got.at("params.layer_101/0"), "old");
  EXPECT_THAT((*repaired)->notes, Contains(HasSubstr("has two values")));
}

// Nodes may refer to each other in any way, so the number of keys is limited by
// the size of the files.
TEST(DatabaseRepairTest, ATreeThatIsLargerThanItsFilesIsRefused) {
  for (const bool has_leaf : {true, false}) {
    // Each level refers many times to the level below, with different prefixes.
    MemoryStore store;
    std::string file;
    const auto add = [&](const Bytes& body) {
      const auto object = ocdbt::SealEnvelope(ocdbt::ObjectKind::kBtreeNode,
                                              body.view(), {.zstd = true});
      const ocdbt::Reference place{0, file.size(), object->size()};
      file += object->view();
      return place;
    };
    const ocdbt::DataFileTable files = {{"d/x", 0}};
    ocdbt::LeafEntry leaf;
    leaf.key = "k";
    leaf.SetInline("");
    ocdbt::Reference below =
        add(ocdbt::EncodeLeafNodeBody("", std::span(&leaf, 1), files));
    if (!has_leaf) below.offset += 1;
    for (uint8_t height = 1; height <= 8; ++height) {
      std::vector<ocdbt::ChildEntry> children;
      static const std::string kKeys = "abcdefghijklmnopqrstuvwxyz";
      for (size_t i = 0; i < kKeys.size(); ++i) {
        ocdbt::ChildEntry child;
        child.key = std::string_view(kKeys).substr(i, 1);
        child.subtree_prefix_byte_count = 1;
        child.node = below;
        children.push_back(child);
      }
      below = add(ocdbt::EncodeInteriorNodeBody(height, "", children, files));
    }
    store.Put("d/x", Bytes(file));
    const auto repaired = RepairDatabase({&store, &store, {}});
    EXPECT_EQ(repaired.status().code(), StatusCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace holdfast
