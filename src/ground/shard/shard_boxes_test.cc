#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "ground/shard/shard_test_util.h"
#include "holdfast/sharding.h"

namespace holdfast {
namespace {

NamedSharding Four2(PartitionSpec spec) {
  return Named({"data", "model"}, {4, 2}, std::move(spec));
}

std::string Boxes(const Sharding& sharding, const Shape& shape) {
  const auto shards = ShardBoxes(sharding, shape);
  if (!shards.ok()) return shards.status().ToString();
  std::string text;
  for (const DeviceShard& shard : *shards) {
    text += std::to_string(shard.device_id) + "/" +
            std::to_string(shard.replica_id) + ShapeToString(shard.origin) +
            ShapeToString(shard.shape) + " ";
  }
  return text;
}

// The boxes are those of jax 0.10 on eight CPU devices.
TEST(ShardBoxes, CutsByOneAxisAndReplicatesOverTheOther) {
  EXPECT_EQ(Boxes(Four2({{"data"}}), {8, 6}),
            "0/0(0, 0)(2, 6) 1/1(0, 0)(2, 6) 2/0(2, 0)(2, 6) 3/1(2, 0)(2, 6) "
            "4/0(4, 0)(2, 6) 5/1(4, 0)(2, 6) 6/0(6, 0)(2, 6) 7/1(6, 0)(2, 6) ");
}

TEST(ShardBoxes, CutsOneDimensionByTwoAxesOutermostFirst) {
  EXPECT_EQ(Boxes(Four2({{"model", "data"}, {}}), {8, 6}),
            "0/0(0, 0)(1, 6) 1/0(4, 0)(1, 6) 2/0(1, 0)(1, 6) 3/0(5, 0)(1, 6) "
            "4/0(2, 0)(1, 6) 5/0(6, 0)(1, 6) 6/0(3, 0)(1, 6) 7/0(7, 0)(1, 6) ");
}

TEST(ShardBoxes, FollowsTheDevicesOfTheMesh) {
  NamedSharding sharding = Named({"x", "y", "z"}, {2, 2, 2}, {{"z"}, {"x"}});
  sharding.mesh.device_ids = {7, 6, 5, 4, 3, 2, 1, 0};
  EXPECT_EQ(Boxes(sharding, {2, 4}),
            "7/0(0, 0)(1, 2) 6/0(1, 0)(1, 2) 5/1(0, 0)(1, 2) 4/1(1, 0)(1, 2) "
            "3/0(0, 2)(1, 2) 2/0(1, 2)(1, 2) 1/1(0, 2)(1, 2) 0/1(1, 2)(1, 2) ");
}

TEST(ShardBoxes, ASpecMayBeShorterThanTheRankAndAMeshEmpty) {
  EXPECT_EQ(Boxes(Named({"a"}, {2}, {}), {3}), "0/0(0,)(3,) 1/1(0,)(3,) ");
  EXPECT_EQ(Boxes(Named({"a"}, {2}, {}), {}), "0/0()() 1/1()() ");
  EXPECT_EQ(Boxes(Named({}, {}, {}), {3}), "0/0(0,)(3,) ");
}

TEST(ShardBoxes, ASingleDeviceHoldsAll) {
  EXPECT_EQ(Boxes(SingleDeviceSharding{"cpu:3"}, {2, 3}), "3/0(0, 0)(2, 3) ");
  EXPECT_EQ(Boxes(SingleDeviceSharding{"TFRT_CPU_12"}, {}), "12/0()() ");
  EXPECT_EQ(Boxes(SingleDeviceSharding{"TPU_5(process=0,(1,1,0,0))"}, {1}),
            "5/0(0,)(1,) ");
}

TEST(ShardBoxes, RefusesWhatDoesNotFitInJaxsWords) {
  EXPECT_EQ(
      ShardBoxes(Four2({{"data"}}), {6}).status().ToString(),
      InvalidArgumentError(
          "Sharding PartitionSpec('data') implies that array axis 0 is "
          "partitioned 4 times, but the dimension size is 6 (full shape: (6,), "
          "per-dimension tiling factors: [4] should evenly divide the shape)")
          .ToString());
  EXPECT_EQ(ShardBoxes(Four2({{"data"}, {"model"}}), {8}).status().ToString(),
            InvalidArgumentError(
                "Sharding PartitionSpec('data', 'model') is only valid for "
                "values of rank at least 2, but was applied to a value of rank "
                "1")
                .ToString());
  EXPECT_EQ(ShardBoxes(Four2({{"q"}}), {8}).status().ToString(),
            InvalidArgumentError("Resource axis: q of PartitionSpec('q') is "
                                 "not found in mesh: ('data', 'model').")
                .ToString());
  EXPECT_EQ(
      ShardBoxes(Four2({{"data"}, {"data"}}), {8, 8}).status().ToString(),
      InvalidArgumentError(
          "A single NamedSharding spec specification can map every mesh axis "
          "to at most one positional dimension, but PartitionSpec('data', "
          "'data') has duplicate entries for `data`")
          .ToString());
}

TEST(ShardBoxes, RefusesMeshesThatAreNone) {
  EXPECT_EQ(ShardBoxes(Named({"a"}, {2, 2}, {}), {4}).status().ToString(),
            InvalidArgumentError("mesh: 1 axis names (want 2)").ToString());
  EXPECT_EQ(
      ShardBoxes(Named({"a"}, {0}, {}), {4}).status().ToString(),
      InvalidArgumentError("mesh: shape (0,) is not that of a grid of devices")
          .ToString());
  EXPECT_EQ(ShardBoxes(Named({"a", "b"}, {1 << 20, 1 << 20}, {}), {4})
                .status()
                .code(),
            StatusCode::kInvalidArgument);
  NamedSharding few = Four2({});
  few.mesh.device_ids = {1, 2};
  EXPECT_EQ(ShardBoxes(few, {4}).status().ToString(),
            InvalidArgumentError("mesh: 2 device ids (want 8)").ToString());
}

// Returns whether the device at `place` holds `element`, directly from the
// definition.
bool Holds(const NamedSharding& sharding, const Shape& place,
           const Shape& array_shape, const Shape& element) {
  for (size_t d = 0; d < sharding.spec.size(); ++d) {
    int64_t parts = 1, part = 0;
    for (const std::string& name : sharding.spec[d]) {
      for (size_t axis = 0; axis < place.size(); ++axis) {
        if (sharding.mesh.axis_names[axis] != name) continue;
        parts *= sharding.mesh.shape[axis];
        part = part * sharding.mesh.shape[axis] + place[axis];
      }
    }
    if (element[d] * parts / array_shape[d] != part) return false;
  }
  return true;
}

bool IsInside(const DeviceShard& shard, const Shape& element) {
  for (size_t d = 0; d < element.size(); ++d) {
    if (element[d] < shard.origin[d] ||
        element[d] >= shard.origin[d] + shard.shape[d]) {
      return false;
    }
  }
  return true;
}

std::vector<Shape> AllPlaces(const Shape& shape) {
  std::vector<Shape> places = {Shape()};
  for (const int64_t extent : shape) {
    std::vector<Shape> longer;
    for (const Shape& place : places) {
      for (int64_t i = 0; i < extent; ++i) {
        longer.push_back(place);
        longer.back().push_back(i);
      }
    }
    places = std::move(longer);
  }
  return places;
}

NamedSharding RandomSharding(std::mt19937& random, size_t rank) {
  NamedSharding sharding;
  std::vector<std::string> unused;
  for (size_t axis = 0; axis < 1 + random() % 3; ++axis) {
    sharding.mesh.axis_names.push_back(std::string(1, 'a' + axis));
    sharding.mesh.shape.push_back(1 + random() % 3);
  }
  unused = sharding.mesh.axis_names;
  std::shuffle(unused.begin(), unused.end(), random);
  sharding.spec.resize(random() % (rank + 1));
  for (auto& entry : sharding.spec) {
    for (size_t n = random() % 3; n > 0 && !unused.empty(); --n) {
      entry.push_back(unused.back());
      unused.pop_back();
    }
  }
  return sharding;
}

TEST(ShardBoxes, AgreesWithTheDefinitionElementByElement) {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    Shape shape;
    for (size_t d = 0; d < 1 + random() % 3; ++d) shape.push_back(6);
    const NamedSharding sharding = RandomSharding(random, shape.size());
    const auto shards = ShardBoxes(sharding, shape);
    if (!shards.ok()) continue;  // 6 is not divisible by 4 or 9
    const std::vector<Shape> devices = AllPlaces(sharding.mesh.shape);
    ASSERT_EQ(shards->size(), devices.size());
    std::map<Shape, int64_t> seen;
    for (size_t i = 0; i < devices.size(); ++i) {
      for (const Shape& element : AllPlaces(shape)) {
        ASSERT_EQ(IsInside((*shards)[i], element),
                  Holds(sharding, devices[i], shape, element));
      }
      EXPECT_EQ((*shards)[i].replica_id, seen[(*shards)[i].origin]++);
      EXPECT_EQ((*shards)[i].device_id, static_cast<int64_t>(i));
    }
  }
}

}  // namespace
}  // namespace holdfast
