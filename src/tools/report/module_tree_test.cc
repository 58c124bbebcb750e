#include "holdfast/tools/module_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast {
namespace {

LeafInfo Leaf(std::vector<std::string> key, int64_t count = 1) {
  LeafInfo leaf;
  leaf.key = std::move(key);
  leaf.shape = {count};
  leaf.stored_bytes = static_cast<uint64_t>(count);
  leaf.decoded_bytes = static_cast<uint64_t>(count) * 4;
  leaf.chunk_count = 1;
  return leaf;
}

TEST(ModuleTree, AddsUp) {
  const ModuleTree tree = MakeModuleTree(
      {Leaf({"a", "x"}, 2), Leaf({"b"}, 3), Leaf({"a", "y", "z"}, 5)});
  ASSERT_EQ(tree.nodes.size(), 6u);
  const ModuleNode& root = tree.nodes[0];
  EXPECT_EQ(root.leaf_count, 3u);
  EXPECT_EQ(root.parameter_count, 10u);
  EXPECT_EQ(root.stored_bytes, 10u);
  EXPECT_EQ(root.decoded_bytes, 40u);
  EXPECT_EQ(root.chunk_count, 3u);
  ASSERT_EQ(root.children.size(), 2u);
  const ModuleNode& a = tree.nodes[root.children[0]];
  EXPECT_EQ(a.key, "a");
  EXPECT_EQ(a.parameter_count, 7u);
  EXPECT_FALSE(a.leaf);
  EXPECT_EQ(tree.nodes[root.children[1]].leaf, 1u);
  EXPECT_EQ(tree.NameOf(tree.nodes.size() - 1), "a.y.z");
  EXPECT_EQ(tree.NameOf(0), "");
}

TEST(ModuleTree, AKeyMayBeALeafAndAModule) {
  const ModuleTree tree =
      MakeModuleTree({Leaf({"a", "b"}), Leaf({"a"}), Leaf({"a", "c"})});
  const ModuleNode& root = tree.nodes[0];
  ASSERT_EQ(root.children.size(), 2u);
  EXPECT_EQ(tree.nodes[root.children[0]].children.size(), 2u);
  EXPECT_EQ(tree.nodes[root.children[1]].leaf, 1u);
}

TEST(ModuleTree, TakesACheckpointThatIsOneLeafAndVeryDeepOnes) {
  ModuleTree tree = MakeModuleTree({Leaf({})});
  ASSERT_EQ(tree.nodes.size(), 2u);
  EXPECT_EQ(tree.nodes[1].leaf, 0u);
  tree = MakeModuleTree({Leaf(std::vector<std::string>(100, "k"))});
  EXPECT_EQ(tree.nodes.size(), 65u);
  EXPECT_EQ(tree.NameOf(64).size(), 199u);
}

}  // namespace
}  // namespace holdfast
