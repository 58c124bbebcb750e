#include "holdfast/tree_utils.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

Tree Pairing(Tree first, Tree second) {
  return Tree::NamedTuple(
      "m", "Pair", {{"mu", std::move(first)}, {"nu", std::move(second)}});
}

Tree Sample() {
  return Tree::Dict({{"b", Tree::List({1, Pairing(2, Tree())})},
                     {"a", Tree::Dict({{"x", "text"}, {"e", Tree::Dict()}})},
                     {"t", Tree::Tuple({4})}});
}

template <typename T>
std::string ErrorOf(const Result<T>& result) {
  return result.ok() ? "ok" : result.status().ToString();
}

TEST(ToFlatDict, IsInJaxOrder) {
  EXPECT_THAT(ToFlatDict(Sample()).value(),
              ElementsAre(Pair(ElementsAre("a", "x"), Tree("text")),
                          Pair(ElementsAre("b", "0"), Tree(1)),
                          Pair(ElementsAre("b", "1", "mu"), Tree(2)),
                          Pair(ElementsAre("t", "0"), Tree(4))));
  const FlatDict all = ToFlatDict(Sample(), true).value();
  ASSERT_EQ(all.size(), 6u);
  EXPECT_THAT(all[0], Pair(ElementsAre("a", "e"), Tree::Dict()));
  EXPECT_THAT(all[4], Pair(ElementsAre("b", "1", "nu"), Tree()));
  EXPECT_THAT(ToFlatDict(Tree(3)).value(),
              ElementsAre(Pair(IsEmpty(), Tree(3))));
}

TEST(FromFlatDict, RebuildsTheTarget) {
  FlatDict flat = ToFlatDict(Sample()).value();
  const Tree target = Sample();
  flat[1].second = "changed";
  const Tree rebuilt = FromFlatDict(flat, &target).value();
  EXPECT_EQ(*rebuilt.FindPath({"b", "0"}), Tree("changed"));
  EXPECT_EQ(*rebuilt.FindPath({"b", "1"}), Pairing(2, Tree()));
  EXPECT_EQ(*rebuilt.FindPath({"a", "e"}), Tree::Dict());
  flat.erase(flat.begin() + 2);
  EXPECT_EQ(ErrorOf(FromFlatDict(flat, &target)),
            "NOT_FOUND: ('b', '1', 'mu')");
}

TEST(FromFlatDict, NestsDicts) {
  EXPECT_EQ(
      FromFlatDict({{{"a", "x"}, 1}, {{"b"}, 2}, {{"a", "0"}, 3}}).value(),
      Tree::Dict({{"a", Tree::Dict({{"x", 1}, {"0", 3}})}, {"b", 2}}));
  EXPECT_EQ(FromFlatDict({{{}, 7}}).value(), Tree(7));
  EXPECT_EQ(FromFlatDict({}).value(), Tree::Dict());
}

TEST(FromFlatDict, RefusesPathsThatMeet) {
  EXPECT_EQ(ErrorOf(FromFlatDict({{{}, 1}, {{"a"}, 2}})),
            "INVALID_ARGUMENT: Empty keypath () must be the only key; got "
            "[(), ('a',)].");
  for (const FlatDict& flat :
       {FlatDict{{{"a"}, 1}, {{"a", "b"}, 2}},
        FlatDict{{{"a", "b"}, 2}, {{"a"}, 1}}, FlatDict{{{"a"}, 1}, {{"a"}, 2}},
        FlatDict{{TreePath(kTreeDepthMax + 1, "k"), 1}}}) {
    EXPECT_EQ(FromFlatDict(flat).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(SerializeTree, MakesDictsAndLists) {
  const Tree serialized = Tree::Dict(
      {{"a", Tree::Dict({{"e", Tree::Dict()}, {"x", "text"}})},
       {"b", Tree::List({1, Tree::Dict({{"mu", 2}, {"nu", Tree()}})})},
       {"t", Tree::List({4})}});
  EXPECT_EQ(SerializeTree(Sample(), true).value(), serialized);
  EXPECT_EQ(DeserializeTree(serialized, Sample(), true).value(), Sample());
  EXPECT_EQ(ErrorOf(SerializeTree(Tree::Dict())),
            "INVALID_ARGUMENT: Unable to uniquely reconstruct tree from empty "
            "flattened list (it could be {} or []).");
}

TEST(DeserializeTree, TakesTheTargetsContainers) {
  const Tree serialized = Tree::Dict(
      {{"p", Tree::Dict({{"mu", 1}, {"nu", Tree::List({2})}})}, {"e", 5}});
  const Tree target =
      Tree::Dict({{"p", Pairing("m", "n")}, {"e", Tree::Dict()}});
  EXPECT_EQ(
      DeserializeTree(serialized, target).value(),
      Tree::Dict({{"p", Pairing(1, Tree::List({2}))}, {"e", Tree::Dict()}}));
  EXPECT_EQ(DeserializeTree(serialized, target, true).value(),
            Tree::Dict({{"p", Pairing(1, Tree::List({2}))}, {"e", 5}}));
  EXPECT_EQ(ErrorOf(DeserializeTree(serialized, Tree::Dict({{"q", 1}}))),
            "NOT_FOUND: 'q'");
  EXPECT_EQ(DeserializeTree(Tree::Dict({{"0", 8}}), Tree::Tuple({0})).value(),
            Tree::Tuple({8}));
  EXPECT_EQ(
      DeserializeTree(Tree::List({8}), Tree::Tuple({0, 0})).status().code(),
      StatusCode::kNotFound);
}

TEST(GetParamNames, JoinsKeysWithDots) {
  EXPECT_EQ(GetParamNames(Sample()).value(),
            Tree::Dict({{"b", Tree::List({"b.0", Pairing("b.1.mu", "b.1.nu")})},
                        {"a", Tree::Dict({{"x", "a.x"}, {"e", "a.e"}})},
                        {"t", Tree::Tuple({"t.0"})}}));
  EXPECT_EQ(GetParamNames(Sample(), false).value(),
            Tree::Dict({{"b", Tree::List({"b.0", Pairing("b.1.mu", Tree())})},
                        {"a", Tree::Dict({{"x", "a.x"}, {"e", Tree::Dict()}})},
                        {"t", Tree::Tuple({"t.0"})}}));
  EXPECT_EQ(StrKeypath({"a", "0"}), "a.0");
  EXPECT_EQ(StrKeypath({"a", "0"}, "/"), "a/0");
}

TEST(MergeTrees, LaterTreesWin) {
  const Tree a = Tree::Dict({{"x", 1}, {"y", Tree::List({2, 3})}});
  const Tree b = Tree::Dict({{"y", Tree::List({5})}, {"e", Tree::Dict()}});
  EXPECT_EQ(MergeTrees({a, b}).value(),
            Tree::Dict({{"x", 1}, {"y", Tree::Dict({{"0", 5}, {"1", 3}})}}));
  EXPECT_EQ(MergeTrees({a, b}, &a).value(),
            Tree::Dict({{"x", 1}, {"y", Tree::List({5, 3})}}));
  EXPECT_EQ(ErrorOf(MergeTrees({b}, &a)), "NOT_FOUND: ('x',)");
}

TEST(IntersectTrees, KeepsWhatAllHave) {
  const Tree a = Tree::Dict({{"x", 1}, {"y", Tree::List({2, 3})}, {"z", 0}});
  const Tree b = Tree::Dict({{"y", Tree::List({5})}, {"z", 4}});
  EXPECT_EQ(IntersectTrees({a, b}).value(),
            Tree::Dict({{"y", Tree::Dict({{"0", 5}})}, {"z", 4}}));
  EXPECT_EQ(IntersectTrees({a, b}, &b).value(), b);
  EXPECT_EQ(IntersectTrees({}).status().code(), StatusCode::kInvalidArgument);
}

std::string Difference(const Tree& a, const Tree& b) {
  return FormatTreeDifference(TreeDifference(a, b).value(), "Item", "Metadata");
}

TEST(TreeDifference, ListsPlacesInJaxOrder) {
  const Tree a = Tree::Dict({{"z", 1},
                             {"only a", Tree::List({1, "x"})},
                             {"l", Tree::List({1, 2})},
                             {"t", Tree::Tuple({1, Tree::Dict()})}});
  const Tree b = Tree::Dict({{"z", 7},
                             {"n", 3},
                             {"l", Tree::List({1})},
                             {"t", Tree::Tuple({"x", Tree::List()})}});
  EXPECT_EQ(Difference(a, a), "");
  EXPECT_EQ(Difference(a, b),
            "l:\n    - Source: (<class 'list'>, 2)\n"
            "    - Target: (<class 'list'>, 1)\n\n"
            "n:\n    - Source: MISSING\n    - Target: 3\n\n"
            "only a:\n    - Source: [1, 'x']\n    - Target: MISSING\n\n"
            "t[0]:\n    - Source: 1\n    - Target: 'x'\n\n"
            "t[1]:\n    - Source: <class 'dict'>\n"
            "    - Target: <class 'list'>");
  EXPECT_EQ(Difference(Tree::Dict({{"a", 1}}), Tree(2)),
            "Mismatch:\n    - Item: <class 'dict'>\n"
            "    - Metadata: <class 'int'>");
}

TEST(TreeDifference, ComparesLeavesAsAsked) {
  const Tree a = Tree::Dict({{"x", 1}, {"y", 2}});
  const Tree b = Tree::Dict({{"x", 1}, {"y", 3}});
  const auto equal = [](const Tree& x, const Tree& y) { return x == y; };
  const std::vector<TreeDiff> found = TreeDifference(a, b, equal).value();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].path, ElementsAre("y"));
  EXPECT_EQ(found[0].place, "y");
  EXPECT_EQ(*found[0].lhs, Tree(2));
  EXPECT_EQ(*found[0].rhs, Tree(3));
}

TEST(TreeTrim, CutsToTheTemplate) {
  const Tree structure =
      Tree::Dict({{"a", 1},
                  {"b", Tree::Dict({{"mu", 2}, {"nu", 3}, {"extra", 4}})},
                  {"c", Tree::List({5, 6})},
                  {"d", 7}});
  const Tree wanted =
      Tree::Dict({{"c", Tree::Tuple({"x", Tree()})}, {"b", Pairing("m", "n")}});
  std::vector<TreePath> dropped;
  const TreeTrimOptions options = {
      .trimmed_structure_callback = [&](const TreePath& path, const Tree&) {
        dropped.push_back(path);
      }};
  EXPECT_EQ(
      TreeTrim(wanted, structure, options).value(),
      Tree::Dict({{"c", Tree::Tuple({5, Tree()})}, {"b", Pairing(2, 3)}}));
  EXPECT_THAT(dropped,
              ElementsAre(ElementsAre("a"), ElementsAre("d"),
                          ElementsAre("c", "1"), ElementsAre("b", "extra")));
}

TEST(TreeTrim, RefusesInOrbaxWords) {
  const auto error = [](const Tree& wanted, const Tree& structure) {
    return ErrorOf(TreeTrim(wanted, structure));
  };
  EXPECT_EQ(error(Tree::Dict({{"a", Tree::List({Tree::Dict({{"x", 1}})})}}),
                  Tree::Dict({{"a", Tree::List({Tree::Dict({{"y", 1}})})}})),
            "INVALID_ARGUMENT: Missing 1 keys in structure path ('a', 0), "
            "including: ['x']");
  EXPECT_EQ(error(Tree::List({1}), Tree::List({1, 2})),
            "INVALID_ARGUMENT: Length mismatch at key path (): template has "
            "length 1, but structure has length 2");
  EXPECT_EQ(error(Tree::Dict({{"a", 1}}), Tree::Dict({{"a", Tree::List({1})}})),
            "INVALID_ARGUMENT: Type mismatch at key path ('a',): template has "
            "type <class 'int'>, but structure has type <class 'list'>.");
  EXPECT_EQ(error(Tree::Dict({{"0", 1}}), Tree::List({1})),
            "INVALID_ARGUMENT: Type mismatch at key path (): template has type "
            "<class 'dict'>, but structure has type <class 'list'>.");
  EXPECT_EQ(error(Tree::List({1}), Tree("x")),
            "INVALID_ARGUMENT: Type mismatch at key path (): template has type "
            "<class 'list'>, but structure has type <class 'str'>");
}

TEST(TreeTrim, OptionsRelaxIt) {
  const Tree wanted = Tree::Dict({{"0", 1}, {"7", Tree::List({1, Tree()})}});
  TreeTrimOptions options = {.strict = false,
                             .allow_sequence_mapping_alignment = true};
  EXPECT_EQ(
      TreeTrim(wanted, Tree::Tuple({5, 6}), options).value(),
      Tree::Dict({{"0", 5}, {"7", Tree::List({Tree::Placeholder(), Tree()})}}));
}

}  // namespace
}  // namespace holdfast
