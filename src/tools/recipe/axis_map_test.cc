#include "tools/recipe/axis_map.h"

#include <gtest/gtest.h>

#include <random>

namespace holdfast {
namespace {

AxisMap MapOf(const std::string& axes, const KnownAxes& known) {
  const auto pattern = ParseAxes(axes);
  EXPECT_TRUE(pattern.ok()) << pattern.status().ToString();
  auto map = ResolveAxes(*pattern, known);
  EXPECT_TRUE(map.ok()) << map.status().ToString();
  return std::move(map).value();
}

// Returns how the complete source array, in C order, is cut into boxes of the
// target.
AxisCut CutOfWhole(const AxisMap& map) {
  PlacedBox atoms;
  const Shape shape = map.source_shape();
  int count = 0;
  EXPECT_TRUE(ForEachAtomBox(map.source, map.sizes,
                             {BoxOf(shape), ContiguousStrides(shape, 1), 0},
                             [&](PlacedBox box) {
                               atoms = std::move(box);
                               ++count;
                               return Status();
                             })
                  .ok());
  EXPECT_EQ(count, 1);
  return CutForAxes(map.target, map.sizes, atoms);
}

TEST(AxisMap, ParsesWhatEinopsWrites) {
  const auto pattern = ParseAxes("(heads d)  1 e ()->... e heads (1 d)");
  ASSERT_TRUE(pattern.ok()) << pattern.status().ToString();
  EXPECT_EQ(pattern->source, AxisNames({{"heads", "d"}, {}, {"e"}, {}}));
  EXPECT_EQ(pattern->target, AxisNames({{"..."}, {"e"}, {"heads"}, {"d"}}));
  const auto scalar = ParseAxes("->");
  ASSERT_TRUE(scalar.ok());
  EXPECT_TRUE(scalar->source.empty() && scalar->target.empty());
}

TEST(AxisMap, HasShapesOfBothSides) {
  const AxisMap map =
      MapOf("(h d) e ... part -> e layer h d ...",
            {{6, 5, 8, 9, 4}, {{"layer", 7}}, {{"part", -1}}, {{"h", 2}}});
  EXPECT_EQ(map.source_shape(), Shape({6, 5, 8, 9, 4}));
  EXPECT_EQ(map.target_shape(), Shape({5, 7, 2, 3, 8, 9}));
  EXPECT_EQ(map.sizes[map.stacked.at(0)], 7);
  EXPECT_EQ(map.sizes[map.split.at(0)], 4);
}

TEST(AxisMap, NeighboursStayTogether) {
  const auto boxes = [](const std::string& axes, const Shape& shape) {
    return CutOfWhole(MapOf(axes, {shape, {}, {}, {{"h", 2}, {"two", 2}}}))
        .box_count;
  };
  EXPECT_EQ(boxes("o i -> i o", {4, 6}), 1u);
  EXPECT_EQ(boxes("(h d) i -> i h d", {4, 6}), 1u);
  EXPECT_EQ(boxes("h d i -> i (h d)", {2, 3, 6}), 1u);
  EXPECT_EQ(boxes("h d i -> (h d i) 1", {2, 3, 6}), 1u);
  // The halves of RoPE: consecutive indices of d are not stored next to each
  // other.
  EXPECT_EQ(boxes("(h two d) i -> (h d two) i", {12, 6}), 6u);
  EXPECT_EQ(boxes("h i -> (i h)", {2, 6}), 6u);
  EXPECT_EQ(boxes("h i -> (i h)", {2, 1}), 1u);
}

TEST(AxisMap, SaysWhetherBoxesLieOneAfterTheOther) {
  const AxisMap outer =
      MapOf("(a b) e -> (b a) e", {{6, 5}, {}, {}, {{"a", 2}}});
  EXPECT_TRUE(CutOfWhole(outer).is_outermost);
  const AxisMap inner =
      MapOf("e (a b) -> e (b a)", {{5, 6}, {}, {}, {{"a", 2}}});
  EXPECT_FALSE(CutOfWhole(inner).is_outermost);
}

TEST(AxisMap, CutsAPartOfAnAxisIntoBoxesOfAtoms) {
  const AxisAtoms axes = {{0, 1, 2}};
  const Shape sizes = {3, 4, 5};
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const int64_t first = random() % 60;
    const int64_t count = 1 + random() % (60 - first);
    const Box box = {{first}, {count}};
    std::vector<int64_t> seen;
    uint64_t boxes = 0;
    const Status status = ForEachAtomBox(
        axes, sizes, {box, {7}, 100}, [&](const PlacedBox& atoms) {
          ++boxes;
          const Shape& at = atoms.box.origin;
          const Shape& extent = atoms.box.shape;
          for (int64_t a = 0; a < extent[0]; ++a) {
            for (int64_t b = 0; b < extent[1]; ++b) {
              for (int64_t c = 0; c < extent[2]; ++c) {
                const int64_t index =
                    (at[0] + a) * 20 + (at[1] + b) * 5 + at[2] + c;
                seen.push_back(index);
                EXPECT_EQ(atoms.offset + a * atoms.strides[0] +
                              b * atoms.strides[1] + c * atoms.strides[2],
                          100 + (index - first) * 7);
              }
            }
          }
          return Status();
        });
    ASSERT_TRUE(status.ok());
    ASSERT_EQ(static_cast<int64_t>(seen.size()), count);
    for (int64_t i = 0; i < count; ++i) ASSERT_EQ(seen[i], first + i);
    EXPECT_EQ(boxes, CountAtomBoxes(axes, sizes, box));
    EXPECT_LE(boxes, 5u);
  }
}

TEST(AxisMap, RefusesWhatIsTooMuch) {
  std::string left, right;
  for (int i = 0; i < 33; ++i) {
    left += "a" + std::to_string(i) + " ";
    right = "a" + std::to_string(i) + " " + right;
  }
  EXPECT_FALSE(ParseAxes(left + "->" + right).ok());
  const auto pattern = ParseAxes("a -> n m a");
  ASSERT_TRUE(pattern.ok());
  const auto map =
      ResolveAxes(*pattern, {{int64_t{1} << 30},
                             {{"n", int64_t{1} << 20}, {"m", int64_t{1} << 20}},
                             {},
                             {}});
  EXPECT_EQ(map.status().message(), "an array too large to count");
}

}  // namespace
}  // namespace holdfast
