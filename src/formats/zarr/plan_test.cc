// ReadPlan and WritePlan.
#include <gtest/gtest.h>

#include "formats/zarr/read_plan.h"
#include "formats/zarr/write_plan.h"

namespace holdfast::zarr {
namespace {

ArrayMetadata Matrix() {
  return OrbaxV2({5, 7}, DType::kInt8, {2, 3}, Compression::kNone);
}

TEST(ReadPlanTest, BoxesAndKeys) {
  const ReadPlan plan = PlanRead(Matrix(), "a/", {{1, 2}, {2, 4}});
  const ReadPlan want = {
      {{0, 0}, "a/0.0", {{1, 2}, {1, 1}}, {{0, 0}, {1, 1}}},
      {{0, 1}, "a/0.1", {{1, 0}, {1, 3}}, {{0, 1}, {1, 3}}},
      {{1, 0}, "a/1.0", {{0, 2}, {1, 1}}, {{1, 0}, {1, 1}}},
      {{1, 1}, "a/1.1", {{0, 0}, {1, 3}}, {{1, 1}, {1, 3}}},
  };
  EXPECT_EQ(plan, want);
}

TEST(ReadPlanTest, EmptyAndScalar) {
  EXPECT_TRUE(PlanRead(Matrix(), "", {{0, 0}, {0, 7}}).empty());
  const ArrayMetadata scalar =
      OrbaxV3({}, DType::kInt8, {}, Compression::kNone);
  const ReadPlan plan = PlanRead(scalar, "s/", {{}, {}});
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(plan[0].key, "s/c");
}

TEST(WritePlanTest, CoversChunk) {
  const WritePlan plan = PlanWrite(Matrix(), "", {{4, 3}, {1, 4}});
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[0].key, "2.1");
  EXPECT_EQ(plan[0].stored_shape, (Shape{1, 3}));
  EXPECT_TRUE(plan[0].covers_chunk());
  EXPECT_EQ(plan[1].stored_shape, (Shape{1, 1}));
  EXPECT_TRUE(plan[1].covers_chunk());
  EXPECT_FALSE(PlanWrite(Matrix(), "", {{0, 0}, {1, 3}})[0].covers_chunk());
}

TEST(SplitByChunksTest, PartsAreBoundedAndInOrder) {
  const ArrayMetadata metadata = Matrix();
  const Box box = {{1, 1}, {4, 6}};
  const ReadPlan whole = PlanRead(metadata, "", box);
  for (int64_t count_max : {1, 2, 3, 4, 8, 100}) {
    std::vector<std::string> keys;
    int64_t elements = 0;
    for (const Box& part : SplitByChunks(metadata, box, count_max)) {
      const ReadPlan plan = PlanRead(metadata, "", part);
      EXPECT_LE(static_cast<int64_t>(plan.size()), count_max);
      for (const ReadItem& item : plan) keys.push_back(item.key);
      elements += ElementCount(part.shape);
    }
    // Every chunk is in exactly one part.
    EXPECT_EQ(keys.size(), whole.size());
    EXPECT_EQ(elements, ElementCount(box.shape));
    if (count_max != 1) continue;
    for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(keys[i], whole[i].key);
  }
}

TEST(SplitByChunksTest, HugeGrid) {
  const ArrayMetadata metadata = OrbaxV2({kExtentMax, kExtentMax}, DType::kInt8,
                                         {1, 1}, Compression::kNone);
  const Box corner = {{kExtentMax - 2, kExtentMax - 2}, {2, 2}};
  EXPECT_EQ(SplitByChunks(metadata, corner, 2).size(), 2u);
  const ReadPlan plan = PlanRead(metadata, "", corner);
  ASSERT_EQ(plan.size(), 4u);
  EXPECT_EQ(plan[3].key, "4611686018427387902.4611686018427387902");
}

}  // namespace
}  // namespace holdfast::zarr
