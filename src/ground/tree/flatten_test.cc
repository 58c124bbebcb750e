#include "ground/tree/flatten.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "ground/tree/value_type.h"

namespace holdfast {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Lines(const std::vector<FlatLeaf>& leaves) {
  std::vector<std::string> lines;
  for (const FlatLeaf& leaf : leaves) {
    lines.push_back(KeyPathRepr(leaf.path) + " " +
                    std::string(leaf.value_type));
  }
  return lines;
}

TEST(Flatten, SortsDictsAndKeepsOtherOrders) {
  const int32_t zeros[2] = {};
  const Array array = Array::FromBytes(DType::kInt32, {2}, zeros);
  const Tree tree = Tree::Dict({
      {"z", Tree::List({1, Tree::Dict(), Tree::List(), Tree::Tuple()})},
      {"\xC3\xBC", "text"},
      {"nt", Tree::NamedTuple("m", "P", {{"b", array}, {"a", Tree()}})},
      {"j", Tree::JaxArray(array)},
      {"p", Tree::Placeholder()},
      {"bytes", Tree::ByteString("\xFF")},
      {"e", Tree::NamedTuple("m", "Empty")},
      {"r", Tree::Reference("elsewhere")},
  });
  const auto leaves = Flatten(tree);
  ASSERT_TRUE(leaves.ok()) << leaves.status().ToString();
  EXPECT_THAT(
      Lines(*leaves),
      ElementsAre("('bytes',) scalar", "('e',) None", "('j',) jax.Array",
                  "('nt', 'b') np.ndarray", "('nt', 'a') None",
                  "('p',) placeholder", "('r',) Unknown", "('z', '0') scalar",
                  "('z', '1') Dict", "('z', '2') List", "('z', '3') Tuple",
                  "('\xC3\xBC',) string"));
  EXPECT_EQ((*leaves)[7].path[1].kind, KeyKind::kIndex);
  EXPECT_EQ((*leaves)[3].path[1].kind, KeyKind::kName);
  EXPECT_EQ((*leaves)[2].leaf, tree.Find("j"));
}

TEST(Flatten, RichTypesKeepTheEmptyNamedTuple) {
  const Tree tree = Tree::NamedTuple("m", "Empty");
  const auto leaves = Flatten(tree, {.support_rich_types = true});
  ASSERT_TRUE(leaves.ok());
  EXPECT_THAT(Lines(*leaves), ElementsAre("() NamedTuple"));
  // An empty node of another class does not count as a named tuple.
  const Tree other = Tree::NamedTuple("", "");
  EXPECT_THAT(Lines(*Flatten(other, {.support_rich_types = true})),
              ElementsAre("() None"));
}

TEST(Flatten, RefusesWhatCannotBeNamed) {
  const auto code = [](const Tree& tree) {
    return Flatten(tree).status().code();
  };
  const Tree twice = Tree::Dict({{"a", Tree::Dict({{"k", 1}, {"k", 2}})}});
  EXPECT_EQ(code(twice), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Flatten(twice).status().message()),
              HasSubstr("('a', 'k')"));
  EXPECT_EQ(code(Tree::Dict({{"\xFF", 1}})), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Tree::List({"\xFF"})), StatusCode::kInvalidArgument);
}

TEST(Flatten, BoundsTheDepth) {
  Tree deep = 1;
  for (int i = 0; i < kTreeDepthMax; ++i) deep = Tree::List({std::move(deep)});
  EXPECT_TRUE(Flatten(deep).ok());
  deep = Tree::List({std::move(deep)});
  EXPECT_EQ(Flatten(deep).status().code(), StatusCode::kInvalidArgument);
}

TEST(CheckParamNames, NamesBothPaths) {
  const Tree tree =
      Tree::Dict({{"a.b", 1}, {"a", Tree::Dict({{"b", 2}, {"c", 3}})}});
  const auto leaves = Flatten(tree);
  ASSERT_TRUE(leaves.ok());
  const Status status = CheckParamNames(*leaves);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("('a', 'b')"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("('a.b',)"));
}

TEST(CheckParamNames, EmptiesStoreNothingAndCannotCollide) {
  const Tree tree =
      Tree::Dict({{"a.b", 1}, {"a", Tree::Dict({{"b", Tree()}})}});
  const auto leaves = Flatten(tree);
  ASSERT_TRUE(leaves.ok());
  EXPECT_TRUE(CheckParamNames(*leaves).ok());
}

TEST(Unflatten, RebuildsListsAndDicts) {
  std::vector<UnflattenEntry> entries;
  for (int i = 11; i >= 0; --i) {
    entries.push_back({{{"l"}, {std::to_string(i), KeyKind::kIndex}}, i});
  }
  entries.push_back({{{"a"}, {"10"}}, "ten"});
  entries.push_back({{{"a"}, {"9"}}, Tree::Tuple()});
  const auto tree = Unflatten(std::move(entries));
  ASSERT_TRUE(tree.ok()) << tree.status().ToString();
  Tree list = Tree::List();
  for (int i = 0; i < 12; ++i) list.Append(i);
  EXPECT_EQ(
      *tree,
      Tree::Dict({{"a", Tree::Dict({{"10", "ten"}, {"9", Tree::Tuple()}})},
                  {"l", std::move(list)}}));
}

TEST(Unflatten, IntegersAreSortedByValueAndComeBackAsSuch) {
  const Tree tree = Tree::Dict(
      {{"s", Tree::IntegerDict({{-3, 1}, {2, 2}, {10, 3}, {400, 4}})}});
  const auto leaves = Flatten(tree);
  ASSERT_TRUE(leaves.ok());
  std::vector<UnflattenEntry> entries;
  for (const FlatLeaf& leaf : *leaves) {
    EXPECT_EQ(leaf.path[1].kind, KeyKind::kInteger);
    entries.push_back({leaf.path, *leaf.leaf});
  }
  std::reverse(entries.begin(), entries.end());
  const auto back = Unflatten(std::move(entries));
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  EXPECT_EQ(*back, tree);
}

TEST(Unflatten, AnIntegerAndANameOfOneTextAreRefused) {
  const KeyElement integer{"1", KeyKind::kInteger};
  const auto mixed = Unflatten({{{integer}, 1}, {{{"x"}}, 2}, {{{"12"}}, 3}});
  ASSERT_TRUE(mixed.ok()) << mixed.status().ToString();
  EXPECT_EQ(mixed->key_kind(0), KeyKind::kInteger);
  EXPECT_EQ(mixed->key_kind(2), KeyKind::kName);
  const auto twins =
      Unflatten({{{integer, {"a"}}, 1}, {{{"1"}, {"b"}}, 2}, {{{"0"}}, 3}});
  EXPECT_EQ(twins.status().code(), StatusCode::kDataLoss);
}

TEST(Unflatten, ABareLeafIsTheTree) {
  const auto tree = Unflatten({{{}, "leaf"}});
  ASSERT_TRUE(tree.ok());
  EXPECT_EQ(*tree, Tree("leaf"));
}

TEST(Unflatten, DropsPlaceholdersThatLeadToOtherEntries) {
  const auto tree = Unflatten(
      {{{{"a"}}, Tree::Dict()}, {{{"a"}, {"b"}}, 1}, {{}, Tree::Dict()}});
  ASSERT_TRUE(tree.ok()) << tree.status().ToString();
  EXPECT_EQ(*tree, Tree::Dict({{"a", Tree::Dict({{"b", 1}})}}));
}

TEST(Unflatten, RefusesContradictions) {
  const auto code = [](std::vector<UnflattenEntry> entries) {
    return Unflatten(std::move(entries)).status().code();
  };
  EXPECT_EQ(code({}), StatusCode::kDataLoss);
  EXPECT_EQ(
      code({{{{"0", KeyKind::kIndex}}, 1}, {{{"2", KeyKind::kIndex}}, 2}}),
      StatusCode::kDataLoss);
  EXPECT_EQ(code({{{{"0", KeyKind::kIndex}}, 1}, {{{"a"}}, 2}}),
            StatusCode::kDataLoss);
  EXPECT_EQ(code({{{{"a"}}, 1}, {{{"a"}}, 2}}), StatusCode::kDataLoss);
  EXPECT_EQ(code({{{{"00", KeyKind::kIndex}}, 1}}), StatusCode::kDataLoss);
  EXPECT_EQ(code({{{{"999999999999999999", KeyKind::kIndex}}, 1}}),
            StatusCode::kDataLoss);
  EXPECT_EQ(code({{KeyPath(kTreeDepthMax + 1, {"0", KeyKind::kIndex}), 1}}),
            StatusCode::kDataLoss);
}

// Returns a tree of dicts and lists only, keys sorted.
Tree RandomTree(std::mt19937& random, int depth) {
  const int kind = depth == 0 ? 2 : static_cast<int>(random() % 3);
  if (kind == 2) return static_cast<int64_t>(random() % 1000);
  Tree node = kind == 0 ? Tree::Dict() : Tree::List();
  const int count = static_cast<int>(random() % 12);
  std::set<std::string> keys;
  while (static_cast<int>(keys.size()) < count) {
    keys.insert(std::to_string(random() % 100));
  }
  for (const std::string& key : keys) {
    Tree child = RandomTree(random, depth - 1);
    if (kind == 0) {
      node.Add(key, std::move(child));
    } else {
      node.Append(std::move(child));
    }
  }
  return node;
}

TEST(Unflatten, UndoesFlattenInAnyOrder) {
  std::mt19937 random(17);
  for (int round = 0; round < 200; ++round) {
    const Tree tree = RandomTree(random, 4);
    const auto leaves = Flatten(tree);
    ASSERT_TRUE(leaves.ok());
    std::vector<UnflattenEntry> entries;
    for (const FlatLeaf& leaf : *leaves) {
      entries.push_back({leaf.path, *leaf.leaf});
    }
    std::shuffle(entries.begin(), entries.end(), random);
    const auto again = Unflatten(std::move(entries));
    ASSERT_TRUE(again.ok()) << again.status().ToString();
    EXPECT_EQ(*again, tree);
  }
}

TEST(Flatten, AnExternalLeafHasItsOwnValueType) {
  const Tree tree = Tree::Dict({{"a", Tree::External("acme.Blob")}});
  const auto leaves = Flatten(tree);
  ASSERT_TRUE(leaves.ok());
  EXPECT_EQ(leaves->at(0).value_type, "acme.Blob");
  const Tree bad = Tree::Dict({{"a", Tree::External("\xff")}});
  EXPECT_EQ(Flatten(bad).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace holdfast
