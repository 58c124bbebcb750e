#include "ground/tensor/box_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

namespace holdfast {
namespace {

using testing::HasSubstr;

Box RandomBoxWithin(const Shape& shape, std::mt19937& random) {
  Box box;
  for (const int64_t extent : shape) {
    const int64_t origin = random() % (extent + 1);
    box.origin.push_back(origin);
    box.shape.push_back(random() % (extent - origin + 1));
  }
  return box;
}

std::vector<Box> Grid(const Shape& shape, const Shape& cell) {
  std::vector<Box> boxes = {{{}, {}}};
  for (size_t d = 0; d < shape.size(); ++d) {
    std::vector<Box> longer;
    for (const Box& box : boxes) {
      for (int64_t at = 0; at < shape[d]; at += cell[d]) {
        longer.push_back(box);
        longer.back().origin.push_back(at);
        longer.back().shape.push_back(std::min(cell[d], shape[d] - at));
      }
    }
    boxes = std::move(longer);
  }
  return boxes;
}

TEST(BoxIndex, FindsWhatALookAtEveryBoxFinds) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    Shape shape;
    for (size_t d = random() % 4; d > 0; --d) shape.push_back(random() % 9 + 1);
    std::vector<Box> boxes;
    for (size_t n = random() % 20 + 1; n > 0; --n) {
      boxes.push_back(RandomBoxWithin(shape, random));
    }
    const BoxIndex index(boxes);
    const Box wanted = RandomBoxWithin(shape, random);
    std::map<size_t, Box> expected, found;
    for (size_t i = 0; i < boxes.size(); ++i) {
      if (auto common = Intersect(boxes[i], wanted)) expected[i] = *common;
    }
    index.ForEachOverlap(wanted, [&](size_t i, const Box& common) {
      EXPECT_TRUE(found.emplace(i, common).second) << "twice";
    });
    EXPECT_EQ(found, expected) << BoxToString(wanted);
  }
}

TEST(BoxIndex, GridsCoverInAnyOrder) {
  std::mt19937 random(4);
  for (const auto& [shape, cell] :
       std::vector<std::pair<Shape, Shape>>{{{}, {}},
                                            {{7}, {3}},
                                            {{4096, 2}, {1, 2}},
                                            {{2, 4096}, {2, 1}},
                                            {{16, 16, 16}, {1, 1, 1}},
                                            {{5, 6, 7}, {2, 4, 7}}}) {
    std::vector<Box> boxes = Grid(shape, cell);
    std::shuffle(boxes.begin(), boxes.end(), random);
    EXPECT_TRUE(BoxIndex(boxes).CheckCover(shape).ok());
    if (boxes.size() == 1) continue;
    const Box lost = boxes.back();
    boxes.pop_back();
    EXPECT_THAT(
        BoxIndex(boxes).CheckCover(shape).message(),
        HasSubstr("leave out " + std::to_string(ElementCount(lost.shape))));
    boxes.push_back(boxes.front());
    EXPECT_THAT(BoxIndex(boxes).CheckCover(shape).message(),
                HasSubstr("overlap"));
  }
}

TEST(BoxIndex, BoxesThatStickOutAreNoCover) {
  for (const Box& bad : {Box{{0}, {5}}, Box{{-1}, {2}}, Box{{4}, {1}},
                         Box{{0, 0}, {4, 1}}, Box{{0}, {-1}}}) {
    EXPECT_EQ(BoxIndex({bad}).CheckCover({4}).code(),
              StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(BoxIndex({{{0}, {4}}, {{4}, {0}}}).CheckCover({4}).ok());
}

}  // namespace
}  // namespace holdfast
