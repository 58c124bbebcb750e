#include "formats/ocdbt/tree_builder.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::ocdbt {
namespace {

// Keeps nodes in a list; the offset of a reference is an index into the list.
class NodeList {
 public:
  BuiltTree Build(const std::set<std::string>& keys, uint64_t node_bytes_max) {
    std::vector<LeafEntry> entries;
    for (const std::string& key : keys) {
      entries.emplace_back();
      entries.back().key = key;
      entries.back().SetInline("v");
    }
    const auto tree = BuildTree(
        entries, files_,
        {.node_bytes_max = node_bytes_max, .compression = {.zstd = false}},
        [&](const Bytes& object) -> Result<Reference> {
          nodes_.push_back(object);
          return Reference{0, nodes_.size() - 1, object.size()};
        });
    EXPECT_TRUE(tree.ok());
    return *tree;
  }

  BtreeNode Get(const Reference& reference) const {
    auto node = DecodeBtreeNode(nodes_[reference.offset], "");
    EXPECT_TRUE(node.ok()) << node.status().ToString();
    return std::move(node).value();
  }
  size_t node_count() const { return nodes_.size(); }

 private:
  const DataFileTable files_ = {{"d/nodes", 0}};
  std::vector<Bytes> nodes_;
};

std::string StoredKey(const BtreeNode& node, size_t i) {
  return std::string(node.key_prefix) + std::string(node.relative_key(i));
}

TEST(TreeBuilderTest, OneNodeKeepsItsWholeKeys) {
  NodeList list;
  const BuiltTree tree = list.Build({"stem/a", "stem/b"}, 0);
  EXPECT_EQ(tree.height, 0);
  EXPECT_EQ(tree.node_count, 1u);
  const BtreeNode root = list.Get(tree.root);
  EXPECT_EQ(StoredKey(root, 0), "stem/a");
  EXPECT_EQ(tree.statistics, (Statistics{2, tree.root.byte_count, 0}));
}

TEST(TreeBuilderTest, LeafWithOneEntryHasAnEmptyKey) {
  NodeList list;
  const BuiltTree tree = list.Build({"stem/a", "stem/b"}, 1);
  EXPECT_EQ(tree.height, 1);
  const BtreeNode root = list.Get(tree.root);
  ASSERT_EQ(root.entry_count(), 2u);
  EXPECT_EQ(StoredKey(root, 1), "stem/b");
  EXPECT_EQ(root.children[1].subtree_prefix_byte_count, 6);
  EXPECT_EQ(StoredKey(list.Get(root.children[1].node), 0), "");
}

// The implied prefix of a level must not exceed the prefix that the children
// imply; otherwise their prefix could not be stated relative to it.
TEST(TreeBuilderTest, ImpliedPrefixesAndStatisticsAddUp) {
  std::set<std::string> keys;
  for (int i = 0; i < 200; ++i) {
    keys.insert("stem/" + std::string(i % 7, 'x') + std::to_string(i * 37));
  }
  NodeList list;
  const BuiltTree tree = list.Build(keys, 150);
  EXPECT_GE(tree.height, 4);
  EXPECT_EQ(tree.node_count, list.node_count());

  std::set<std::string> seen;
  const std::function<Statistics(const Reference&, std::string)> visit =
      [&](const Reference& reference, std::string prefix) {
        const BtreeNode node = list.Get(reference);
        Statistics sum{0, reference.byte_count, 0};
        for (size_t i = 0; i < node.entry_count(); ++i) {
          const std::string key = prefix + StoredKey(node, i);
          if (node.height == 0) {
            EXPECT_TRUE(seen.insert(key).second);
            sum.Add({1, 0, 0});
            continue;
          }
          const ChildEntry& child = node.children[i];
          const Statistics below = visit(
              child.node,
              key.substr(0, prefix.size() + child.subtree_prefix_byte_count));
          EXPECT_EQ(below, child.statistics);
          sum.Add(below);
        }
        return sum;
      };
  EXPECT_EQ(visit(tree.root, ""), tree.statistics);
  EXPECT_EQ(seen, keys);
}

TEST(TreeBuilderTest, SinkFailureEndsTheBuild) {
  LeafEntry entry;
  entry.key = "k";
  entry.SetInline("");
  const auto tree =
      BuildTree({&entry, 1}, {}, {}, [](const Bytes&) -> Result<Reference> {
        return ResourceExhaustedError("disk full");
      });
  EXPECT_EQ(tree.status().ToString(), "RESOURCE_EXHAUSTED: disk full");
}

}  // namespace
}  // namespace holdfast::ocdbt
