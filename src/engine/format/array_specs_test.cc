#include "engine/format/array_specs.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

Tree SpecOf(const char* driver, const char* path) {
  return Tree::Dict(
      {{"driver", driver},
       {"dtype", "float32"},
       {"kvstore", Tree::Dict({{"driver", "file"}, {"path", path}})},
       {"metadata", Tree::Dict({{"shape", Tree::List({2, 3})}})}});
}

TEST(ArraySpecs, NamesAnArrayBelowTheCheckpoint) {
  const auto spec = ParseArraySpec(SpecOf("zarr", "target.w/"));
  ASSERT_TRUE(spec.has_value());
  EXPECT_EQ(spec->array, "target.w");
  EXPECT_EQ(spec->shape, (Shape{2, 3}));
  EXPECT_TRUE(spec->problem.ok());
  // The checkpoint may have been moved since it was saved.
  EXPECT_EQ(ParseArraySpec(SpecOf("zarr", "/old/run/target.w"))->array,
            "target.w");
  EXPECT_EQ(ParseArraySpec(SpecOf("zarr", "./a/b/"))->array, "a/b");
}

TEST(ArraySpecs, OlderSpecsAndCasts) {
  Tree old = Tree::Dict({{"driver", "zarr"},
                         {"kvstore", Tree::Dict({{"driver", "gfile"}})},
                         {"path", "target.w"}});
  EXPECT_EQ(ParseArraySpec(old)->array, "target.w");
  EXPECT_EQ(ParseArraySpec(old)->shape, std::nullopt);
  const Tree cast = Tree::Dict({{"driver", "cast"},
                                {"dtype", "bfloat16"},
                                {"base", SpecOf("zarr", "target.w")}});
  EXPECT_EQ(ParseArraySpec(cast)->array, "target.w");
}

TEST(ArraySpecs, RefusesOtherDrivers) {
  EXPECT_EQ(ParseArraySpec(SpecOf("n5", "target.w"))->problem.code(),
            StatusCode::kUnimplemented);
}

TEST(ArraySpecs, OtherDictsStayWhatTheyAre) {
  Tree tree = Tree::Dict({{"driver", "adam"},
                          {"kvstore", "none"},
                          {"steps", Tree::List({SpecOf("zarr", "w"), 1})}});
  const ArraySpecs specs = TakeArraySpecs(tree);
  ASSERT_EQ(specs.size(), 1u);
  EXPECT_EQ(tree.Find("driver")->text(), "adam");
  const Tree& leaf = tree.Find("steps")->children()[0];
  ASSERT_EQ(leaf.leaf_kind(), LeafKind::kReference);
  EXPECT_EQ(specs.at(leaf.text()).array, "w");
}

}  // namespace
}  // namespace holdfast
