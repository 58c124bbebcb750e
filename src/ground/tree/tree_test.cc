#include "holdfast/tree.h"

#include <gtest/gtest.h>

#include "twins/host_reader.h"

namespace holdfast {
namespace {

Array Floats(std::vector<float> values) {
  const int64_t count = static_cast<int64_t>(values.size());
  return Array::FromBytes(DType::kFloat32, {count}, values.data());
}

TEST(Tree, LiteralsBecomePythonValues) {
  EXPECT_EQ(Tree(true).scalar().dtype, DType::kBool);
  EXPECT_TRUE(Tree(true).scalar().As<bool>());
  EXPECT_EQ(Tree(7).scalar().dtype, DType::kInt64);
  EXPECT_EQ(Tree(int64_t{-7}).scalar().As<int64_t>(), -7);
  EXPECT_EQ(Tree(2.5f).scalar().As<double>(), 2.5);
  EXPECT_EQ(Tree(std::complex<double>(1, 2)).scalar().dtype,
            DType::kComplex128);
  EXPECT_TRUE(Tree(7).scalar().is_python);
  EXPECT_EQ(Tree("text").leaf_kind(), LeafKind::kString);
  EXPECT_EQ(Tree("text").text(), "text");
  EXPECT_TRUE(Tree().is_none());
}

TEST(Tree, FindsByKeyAndIndex) {
  const Tree tree = Tree::Dict(
      {{"b", 1}, {"l", Tree::List({10, Tree::Tuple({"x", Tree::None()})})}});
  ASSERT_NE(tree.FindPath({"l", "1", "0"}), nullptr);
  EXPECT_EQ(tree.FindPath({"l", "1", "0"})->text(), "x");
  EXPECT_EQ(tree.FindPath({}), &tree);
  EXPECT_EQ(tree.Find("c"), nullptr);
  EXPECT_EQ(tree.FindPath({"l", "2"}), nullptr);
  EXPECT_EQ(tree.FindPath({"l", "x"}), nullptr);
  EXPECT_EQ(tree.FindPath({"l", "0", "deeper"}), nullptr);
}

TEST(Tree, KeepsOrderAndTypes) {
  Tree tree = Tree::NamedTuple("mod", "Pair", {{"second", 1}});
  tree.Add("first", 2);
  EXPECT_EQ(tree.keys(), (std::vector<std::string>{"second", "first"}));
  EXPECT_EQ(tree.type_module(), "mod");
  EXPECT_EQ(tree.type_name(), "Pair");
  EXPECT_TRUE(tree.is_mapping());
  EXPECT_FALSE(tree.is_sequence());
  EXPECT_TRUE(Tree::Tuple().is_empty_container());
  EXPECT_EQ(Tree::Tuple().kind(), NodeKind::kTuple);
}

TEST(Tree, IntegerKeysAreNoNames) {
  Tree tree = Tree::IntegerDict({{2, "two"}, {-1, "less"}});
  EXPECT_EQ(tree.keys(), (std::vector<std::string>{"2", "-1"}));
  EXPECT_EQ(tree.key_kind(1), KeyKind::kInteger);
  EXPECT_EQ(tree.Find("-1")->text(), "less");
  EXPECT_NE(tree, Tree::Dict({{"2", "two"}, {"-1", "less"}}));
  tree.Add("x", 1);
  EXPECT_EQ(tree.key_kind(2), KeyKind::kName);
  EXPECT_EQ(tree.key_kind(0), KeyKind::kInteger);
  EXPECT_EQ(Tree::List({1}).key_kind(0), KeyKind::kIndex);
  for (const char* text : {"0", "-1", "9223372036854775807"}) {
    EXPECT_TRUE(IsIntegerText(text)) << text;
  }
  for (const char* text :
       {"", "-", "-0", "01", "+1", "1.0", "1 ", "0x1", "9223372036854775808"}) {
    EXPECT_FALSE(IsIntegerText(text)) << text;
  }
}

TEST(Tree, JaxArrayHasAShardingWhenNoneIsGiven) {
  const Tree plain = Tree::JaxArray(Floats({1}));
  EXPECT_EQ(plain.array_kind(), ArrayKind::kJax);
  EXPECT_EQ(plain.sharding_json(), kSingleDeviceShardingJson);
  const auto traits =
      std::make_shared<const ArrayTraits>(ArrayTraits{"{}", "", {}});
  EXPECT_EQ(Tree::JaxArray(Floats({1}), traits).sharding_json(), "{}");
  EXPECT_EQ(Tree(Floats({1})).array_kind(), ArrayKind::kNumpy);
}

TEST(Tree, AShardedArrayIsWhatItsShardsHold) {
  const auto traits = std::make_shared<const ArrayTraits>();
  const auto sharded = [&](std::vector<ArrayShard> shards) {
    return Tree::ShardedArray({4}, std::move(shards), traits);
  };
  const Tree halves = sharded({{{0}, Floats({1, 2})}, {{2}, Floats({3, 4})}});
  EXPECT_EQ(halves.array_kind(), ArrayKind::kJax);
  EXPECT_EQ(halves.array_shape(), Shape{4});
  EXPECT_EQ(halves.array_dtype(), DType::kFloat32);
  EXPECT_EQ(halves.shards().size(), 2u);
  EXPECT_EQ(halves.array().shape(), Shape{2});
  const Tree uneven = sharded({{{3}, Floats({4})}, {{0}, Floats({1, 2, 3})}});
  EXPECT_TRUE(halves == uneven);
  EXPECT_TRUE(halves == Tree::JaxArray(Floats({1, 2, 3, 4})));
  EXPECT_TRUE(Tree::JaxArray(Floats({1, 2, 3, 4})) == uneven);
  EXPECT_FALSE(uneven == Tree::JaxArray(Floats({1, 2, 9, 4})));
  EXPECT_FALSE(halves == Tree(Floats({1, 2, 3, 4}))) << "kind";
  EXPECT_FALSE(halves == sharded({{{0}, Floats({1, 2})}})) << "a gap";
}

TEST(Tree, AShardWithAReaderEqualsOnlyOneWithThatReader) {
  const auto traits = std::make_shared<const ArrayTraits>();
  const auto with = [&](std::shared_ptr<const ArrayReader> reader) {
    return Tree::ShardedArray(
        {4},
        {{{0}, Floats({1, 2})},
         {{2}, Array::Outline(DType::kFloat32, {2}), std::move(reader)}},
        traits);
  };
  const auto reader = std::make_shared<HostReader>(Floats({3, 4}));
  EXPECT_TRUE(with(reader) == with(reader));
  EXPECT_FALSE(with(reader) ==
               with(std::make_shared<HostReader>(Floats({3, 4}))));
  EXPECT_FALSE(with(reader) == Tree::JaxArray(Floats({1, 2, 3, 4})));
}

TEST(Tree, EqualityLooksAtTraits) {
  const auto with = [](ArrayTraits traits) {
    return Tree::JaxArray(
        Floats({1, 2}), std::make_shared<const ArrayTraits>(std::move(traits)));
  };
  const Tree plain = Tree::JaxArray(Floats({1, 2}));
  EXPECT_TRUE(plain == with({}));
  EXPECT_FALSE(plain == with({"{}", "", {}}));
  EXPECT_FALSE(with({"{}", "", {}}) == with({"{}", "rbg", {}}));
  EXPECT_FALSE(with({"{}", "", {1}}) == with({"{}", "", {2}}));
}

TEST(Tree, EqualityLooksAtEverything) {
  const auto make = [](Tree leaf) { return Tree::Dict({{"a", leaf}}); };
  EXPECT_EQ(make(1), make(1));
  EXPECT_FALSE(make(1) == make(1.0));
  EXPECT_FALSE(make(1) == Tree::Dict({{"b", 1}}));
  EXPECT_FALSE(Tree::List() == Tree::Tuple());
  EXPECT_FALSE(Tree::NamedTuple("m", "P") == Tree::NamedTuple("m", "Q"));
  EXPECT_FALSE(Tree::Placeholder() == Tree::None());
  EXPECT_FALSE(Tree("x") == Tree::Reference("x"));
  EXPECT_FALSE(Tree(1) == Tree(Scalar::Of<int64_t>(DType::kInt64, 1, false)));
}

TEST(Tree, AnExternalLeafIsItsValueType) {
  const Tree leaf = Tree::External("acme.Blob");
  EXPECT_EQ(leaf.leaf_kind(), LeafKind::kExternal);
  EXPECT_EQ(leaf.text(), "acme.Blob");
  EXPECT_EQ(leaf, Tree::External("acme.Blob"));
  EXPECT_FALSE(leaf == Tree::External("acme.Other"));
  EXPECT_FALSE(leaf == Tree("acme.Blob"));
}

TEST(Tree, AnObjectIsEqualToItselfAlone) {
  const Tree leaf = Tree::Object(std::string("value"));
  EXPECT_EQ(leaf.leaf_kind(), LeafKind::kObject);
  EXPECT_EQ(std::any_cast<std::string>(leaf.object()), "value");
  const Tree copy = leaf;
  EXPECT_EQ(&copy.object(), &leaf.object());
  EXPECT_EQ(copy, leaf);
  EXPECT_FALSE(leaf == Tree::Object(std::string("value")));
}

TEST(Tree, ArraysAreEqualElementByElement) {
  const Array two = Floats({1, 2});
  EXPECT_EQ(Tree(two), Tree(Floats({1, 2})));
  EXPECT_FALSE(Tree(two) == Tree(Floats({1, 3})));
  EXPECT_FALSE(Tree(two) == Tree::JaxArray(two));
  ConstArrayView reversed = two.view();
  reversed.data += sizeof(float);
  reversed.strides[0] = -reversed.strides[0];
  EXPECT_EQ(Tree(Array::Borrow(reversed, nullptr)), Tree(Floats({2, 1})));
  EXPECT_FALSE(Tree(Array::Borrow(reversed, nullptr)) == Tree(two));
}

}  // namespace
}  // namespace holdfast
