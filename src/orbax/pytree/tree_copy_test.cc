#include "orbax/pytree/tree_copy.h"

#include <gtest/gtest.h>

#include "orbax/pytree/pytree_test_util.h"

namespace holdfast {
namespace {

const char* DataOf(const Tree& tree, std::string_view key) {
  return tree.Find(key)->array().view().data;
}

TEST(Snapshot, OwesNothingToTheMemoryOfMutableArrays) {
  std::vector<float> memory(6, 1.0f);
  const auto view = [&](Shape shape, Shape strides) {
    return Array::Borrow({DType::kFloat32, reinterpret_cast<char*>(&memory[0]),
                          std::move(shape), std::move(strides)},
                         nullptr);
  };
  const Tree tree = Tree::Dict({{"plain", view({6}, {4})},
                                {"strided", view({3}, {8})},
                                {"jax", Tree::JaxArray(view({2, 3}, {12, 4}))},
                                {"empty", view({0, 3}, {12, 4})}});
  const Tree want = *Snapshot(tree, {});
  ASSERT_EQ(want, tree);
  memory.assign(6, 2.0f);
  EXPECT_EQ(Elements(want.Find("plain")->array()), std::vector<float>(6, 1));
  EXPECT_EQ(Elements(want.Find("strided")->array()), std::vector<float>(3, 1));
  EXPECT_EQ(Elements(want.Find("jax")->array()), std::vector<float>(6, 1));
}

// The array is copied in pieces, and the last piece is smaller.
TEST(Snapshot, LargeArraysAreCopiedToTheLastByte) {
  const Tree tree = Tree::Dict({{"w", Iota({3, 1000, 1001})}});
  EXPECT_EQ(*Snapshot(tree, {}), tree);
  EXPECT_EQ(ArrayBytes(tree), 3u * 1000 * 1001 * 4);
}

TEST(Snapshot, LeavesImmutableArraysWhereTheyAre) {
  const Tree tree =
      Tree::Dict({{"jax", Tree::JaxArray(Iota({4}))}, {"np", Tree(Iota({3}))}});
  const auto is_jax = [](const Tree& leaf) {
    return leaf.array_kind() == ArrayKind::kJax;
  };
  const Tree copy = *Snapshot(tree, {}, is_jax);
  EXPECT_EQ(DataOf(copy, "jax"), DataOf(tree, "jax"));
  EXPECT_NE(DataOf(copy, "np"), DataOf(tree, "np"));
  EXPECT_EQ(copy, tree);
  EXPECT_EQ(ArrayBytes(tree, is_jax), 12u);
}

}  // namespace
}  // namespace holdfast
