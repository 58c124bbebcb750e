#include "holdfast/shard_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "ground/shard/shard_test_util.h"

namespace holdfast {
namespace {

std::string SharesText(const Sharding& sharding, const Shape& shape,
                       int64_t element_bytes, const ReplicaOptions& options) {
  const auto planner = ShardPlanner::OfAll(sharding);
  const auto layout = planner->Layout(shape, element_bytes, options);
  const auto shares = planner->Shares(shape, *layout);
  std::string text = ShapeToString(layout->write_shape);
  for (const DeviceShare& share : *shares) {
    text += " " + std::to_string(share.shard.device_id) + ":" +
            (share.write_origin ? ShapeToString(*share.write_origin) : "-");
  }
  return text;
}

TEST(ShardPlanner, ReplicasWriteASliceEach) {
  const NamedSharding rows = Named({"a", "b"}, {2, 2}, {{"a"}});
  EXPECT_EQ(SharesText(rows, {8, 6}, 4, {}),
            "(2, 6) 0:(0, 0) 1:(2, 0) 2:(4, 0) 3:(6, 0)");
  // Uses the first axis that divides evenly: three rows do not divide evenly.
  EXPECT_EQ(SharesText(rows, {6, 6}, 4, {}),
            "(3, 3) 0:(0, 0) 1:(0, 3) 2:(3, 0) 3:(3, 3)");
  EXPECT_EQ(SharesText(rows, {6, 3}, 4, {}),
            "(3, 3) 0:(0, 0) 1:- 2:(3, 0) 3:-");
}

TEST(ShardPlanner, OptionsLeaveItToReplicaZero) {
  const NamedSharding all = Named({"a"}, {4}, {});
  EXPECT_EQ(SharesText(all, {8}, 4, {.use_replica_parallel = false}),
            "(8,) 0:(0,) 1:- 2:- 3:-");
  EXPECT_EQ(SharesText(all, {8}, 4, {.min_slice_bytes = 8}),
            "(2,) 0:(0,) 1:(2,) 2:(4,) 3:(6,)");
  EXPECT_EQ(SharesText(all, {8}, 4, {.min_slice_bytes = 9}),
            "(8,) 0:(0,) 1:- 2:- 3:-");
  EXPECT_EQ(SharesText(all, {8}, 4, {.max_replicas = 2}),
            "(4,) 0:(0,) 1:(4,) 2:- 3:-");
  for (const int64_t count : {1, 0, -1}) {
    EXPECT_EQ(SharesText(all, {8}, 4, {.max_replicas = count}),
              "(8,) 0:(0,) 1:- 2:- 3:-");
  }
}

TEST(ShardPlanner, NothingAndScalarsAreNotSliced) {
  const NamedSharding all = Named({"a"}, {2}, {});
  EXPECT_EQ(SharesText(all, {}, 4, {}), "() 0:() 1:-");
  EXPECT_EQ(SharesText(all, {0, 4}, 4, {}), "(0, 4) 0:(0, 0) 1:-");
  // All parts of an empty array are the same box, so the second is a replica.
  EXPECT_EQ(SharesText(Named({"a"}, {2}, {{"a"}}), {0}, 4, {}),
            "(0,) 0:(0,) 1:-");
  EXPECT_EQ(SharesText(SingleDeviceSharding{"cpu:3"}, {4}, 4, {}),
            "(4,) 3:(0,)");
}

TEST(ShardPlanner, KnowsTheDevicesOfARank) {
  NamedSharding sharding = Named({"a"}, {4}, {{"a"}});
  sharding.mesh.device_ids = {2049, 0, 2048, 1};
  const auto ids = [&](const DeviceProcesses& processes, int64_t rank) {
    const auto planner = ShardPlanner::OfRank(sharding, processes, rank);
    const auto boxes = planner->Boxes({4});
    std::vector<int64_t> found;
    for (const DeviceShard& shard : *boxes) {
      found.push_back(shard.device_id);
      EXPECT_EQ(sharding.mesh.device_ids[shard.origin[0]], shard.device_id);
    }
    return found;
  };
  using Ids = std::vector<int64_t>;
  EXPECT_EQ(ids({.ids_per_process = 2048}, 0), Ids({0, 1}));
  EXPECT_EQ(ids({.ids_per_process = 2048}, 1), Ids({2049, 2048}));
  EXPECT_EQ(ids({.ids_per_process = 2048}, 2), Ids());
  const std::vector<Sharding> shardings = {sharding, SingleDeviceSharding{}};
  EXPECT_EQ(ids(*EvenProcesses(shardings, 4), 2), Ids({2048}));
  EXPECT_EQ(ids(*EvenProcesses(shardings, 2), 1), Ids({2049, 2048}));
  EXPECT_EQ(ids({.rank_by_device = {{0, 5}, {1, 5}, {2048, 5}, {2049, 1}}}, 1),
            Ids({2049}));
}

TEST(ShardPlanner, RefusesDevicesWithoutAProcess) {
  NamedSharding sharding = Named({"a"}, {2}, {{"a"}});
  EXPECT_EQ(ShardPlanner::OfRank(sharding, {.rank_by_device = {{1, 0}}}, 0)
                .status()
                .ToString(),
            InvalidArgumentError(
                "device 0: not among the 1 devices that have a process")
                .ToString());
  EXPECT_EQ(RankOfDevice({.ids_per_process = 0}, 3).status().ToString(),
            InvalidArgumentError("device 3: no process, with 0 ids a process")
                .ToString());
  EXPECT_FALSE(RankOfDevice({}, -1).ok());
  const std::vector<Sharding> shardings = {sharding};
  EXPECT_EQ(
      EvenProcesses(shardings, 3).status().ToString(),
      InvalidArgumentError("2 devices cannot be shared evenly by 3 processes")
          .ToString());
  EXPECT_FALSE(EvenProcesses(shardings, 0).ok());
  sharding.mesh.device_ids = {7, 7};
  EXPECT_EQ(ShardPlanner::OfAll(sharding).status().ToString(),
            InvalidArgumentError("mesh: device 7 occurs twice").ToString());
  EXPECT_FALSE(ShardBoxes(Named({"a"}, {2}, {}), {-4}).ok());
}

class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}

  int64_t Below(int64_t n) {
    return std::uniform_int_distribution<int64_t>(0, n - 1)(random_);
  }

  NamedSharding ASharding(size_t rank) {
    NamedSharding sharding;
    std::vector<std::string> axes;
    for (int64_t i = Below(4); i > 0; --i) {
      axes.push_back(std::string(1, static_cast<char>('a' + axes.size())));
      sharding.mesh.shape.push_back(1 + Below(4));
    }
    sharding.mesh.axis_names = axes;
    std::shuffle(axes.begin(), axes.end(), random_);
    sharding.spec.resize(Below(rank + 1));
    for (auto& entry : sharding.spec) {
      while (!axes.empty() && Below(2) == 0) {
        entry.push_back(axes.back());
        axes.pop_back();
      }
    }
    if (Below(2) == 0) {
      const int64_t count = ElementCount(sharding.mesh.shape);
      for (int64_t i = 0; i < count; ++i) {
        sharding.mesh.device_ids.push_back(2048 * (i % 3) + i / 3);
      }
      std::shuffle(sharding.mesh.device_ids.begin(),
                   sharding.mesh.device_ids.end(), random_);
    }
    return sharding;
  }

  // Returns a shape that the sharding divides evenly.
  Shape AShape(const NamedSharding& sharding, size_t rank) {
    Shape shape(rank);
    for (size_t d = 0; d < rank; ++d) {
      shape[d] = Below(12) == 0 ? 0 : 1 + Below(6);
      if (d >= sharding.spec.size()) continue;
      for (const std::string& axis : sharding.spec[d]) {
        shape[d] *= sharding.mesh.shape[axis[0] - 'a'];
      }
    }
    return shape;
  }

 private:
  std::mt19937 random_;
};

// Returns each device's box, with a replica id found by counting earlier
// devices.
std::vector<DeviceShard> SlowBoxes(const NamedSharding& sharding,
                                   const Shape& shape) {
  const Mesh& mesh = sharding.mesh;
  std::vector<DeviceShard> shards;
  std::map<std::pair<Shape, Shape>, int64_t> replica_counts;
  Shape place(mesh.shape.size(), 0);
  for (int64_t i = 0; i < ElementCount(mesh.shape); ++i) {
    DeviceShard shard{mesh.device_ids.empty() ? i : mesh.device_ids[i], 0,
                      Shape(shape.size(), 0), shape};
    for (size_t d = 0; d < sharding.spec.size(); ++d) {
      for (const std::string& axis : sharding.spec[d]) {
        shard.shape[d] /= mesh.shape[axis[0] - 'a'];
        shard.origin[d] += place[axis[0] - 'a'] * shard.shape[d];
      }
    }
    shard.replica_id = replica_counts[{shard.origin, shard.shape}]++;
    shards.push_back(shard);
    for (size_t axis = place.size(); axis-- > 0;) {
      if (++place[axis] < mesh.shape[axis]) break;
      place[axis] = 0;
    }
  }
  return shards;
}

TEST(ShardPlanner, EveryRankAgreesWithTheSlowTwin) {
  Draw draw(1);
  for (int round = 0; round < 600; ++round) {
    const size_t rank = draw.Below(4);
    const NamedSharding sharding = draw.ASharding(rank);
    const Shape shape = draw.AShape(sharding, rank);
    const std::vector<DeviceShard> want = SlowBoxes(sharding, shape);
    ASSERT_EQ(*ShardBoxes(sharding, shape), want) << "round " << round;
    const int64_t process_count = 1 + draw.Below(4);
    DeviceProcesses processes;
    for (const DeviceShard& shard : want) {
      processes.rank_by_device[shard.device_id] = draw.Below(process_count);
    }
    for (int64_t process = 0; process < process_count; ++process) {
      std::vector<DeviceShard> mine;
      for (const DeviceShard& shard : want) {
        if (processes.rank_by_device[shard.device_id] == process) {
          mine.push_back(shard);
        }
      }
      const auto planner = ShardPlanner::OfRank(sharding, processes, process);
      ASSERT_EQ(*planner->Boxes(shape), mine) << "round " << round;
    }
  }
}

// Adds one to the count of each element of the box.
void CountBox(const Shape& shape, const Shape& origin, const Shape& box,
              std::vector<int>* counts) {
  Shape at(shape.size(), 0);
  for (int64_t i = 0; i < ElementCount(box); ++i) {
    int64_t element = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      element = element * shape[d] + origin[d] + at[d];
    }
    ++(*counts)[element];
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < box[d]) break;
      at[d] = 0;
    }
  }
}

TEST(ShardPlanner, EveryElementIsWrittenOnceByADeviceThatHoldsIt) {
  Draw draw(2);
  for (int round = 0; round < 600; ++round) {
    const size_t rank = draw.Below(4);
    const NamedSharding sharding = draw.ASharding(rank);
    const Shape shape = draw.AShape(sharding, rank);
    ReplicaOptions options;
    options.use_replica_parallel = draw.Below(8) > 0;
    options.min_slice_bytes = draw.Below(20);
    if (draw.Below(2) == 0) options.max_replicas = draw.Below(5);
    const auto planner = ShardPlanner::OfAll(sharding);
    const auto layout = planner->Layout(shape, 2, options);
    const auto shares = planner->Shares(shape, *layout);
    std::vector<int> counts(ElementCount(shape));
    for (const DeviceShare& share : *shares) {
      if (!share.write_origin) continue;
      for (size_t d = 0; d < rank; ++d) {
        ASSERT_GE((*share.write_origin)[d], share.shard.origin[d]);
        ASSERT_LE((*share.write_origin)[d] + layout->write_shape[d],
                  share.shard.origin[d] + share.shard.shape[d]);
      }
      CountBox(shape, *share.write_origin, layout->write_shape, &counts);
    }
    ASSERT_EQ(std::count(counts.begin(), counts.end(), 1),
              static_cast<int64_t>(counts.size()))
        << "round " << round;
  }
}

TEST(ChunkNeed, CountsWhatBoxesTouchOnce) {
  const Shape array = {10, 10}, chunk = {4, 4};
  const auto need = [&](std::vector<DeviceShard> boxes) {
    const ChunkNeed got = NeedOfBoxes(array, chunk, boxes);
    return Shape{got.chunk_count, got.read_elements, got.need_elements};
  };
  EXPECT_EQ(need({}), Shape({0, 0, 0}));
  EXPECT_EQ(need({{0, 0, {0, 0}, {0, 5}}}), Shape({0, 0, 0}));
  EXPECT_EQ(need({{0, 0, {3, 9}, {2, 1}}}), Shape({2, 16, 2}));
  EXPECT_EQ(need({{0, 0, {0, 0}, {1, 1}}, {1, 0, {3, 3}, {1, 1}}}),
            Shape({1, 16, 2}));
  const ChunkNeed scalar = NeedOfBoxes({}, {}, std::vector<DeviceShard>(2));
  EXPECT_EQ(scalar.chunk_count, 1);
  EXPECT_EQ(scalar.need_elements, 1);
}

TEST(ChunkNeed, AgreesWithTheSlowTwin) {
  Draw draw(3);
  for (int round = 0; round < 400; ++round) {
    const size_t rank = 1 + draw.Below(3);
    Shape shape(rank), chunk(rank), grid(rank);
    for (size_t d = 0; d < rank; ++d) {
      shape[d] = 1 + draw.Below(12);
      chunk[d] = 1 + draw.Below(6);
      grid[d] = (shape[d] - 1) / chunk[d] + 1;
    }
    std::vector<int> elements(ElementCount(shape));
    std::vector<DeviceShard> boxes(1 + draw.Below(4));
    for (DeviceShard& box : boxes) {
      box.origin.resize(rank);
      box.shape.resize(rank);
      for (size_t d = 0; d < rank; ++d) {
        box.origin[d] = draw.Below(shape[d]);
        box.shape[d] = draw.Below(shape[d] - box.origin[d] + 1);
      }
      CountBox(shape, box.origin, box.shape, &elements);
    }
    ChunkNeed want;
    Shape index(rank, 0);
    for (int64_t i = 0; i < ElementCount(grid); ++i) {
      Shape origin(rank), size(rank);
      for (size_t d = 0; d < rank; ++d) {
        origin[d] = index[d] * chunk[d];
        size[d] = std::min(chunk[d], shape[d] - origin[d]);
      }
      std::vector<int> inside(elements.size());
      CountBox(shape, origin, size, &inside);
      int64_t needed = 0;
      for (size_t e = 0; e < elements.size(); ++e) {
        needed += inside[e] > 0 && elements[e] > 0;
      }
      want.need_elements += needed;
      if (needed > 0) {
        ++want.chunk_count;
        want.read_elements += ElementCount(size);
      }
      for (size_t d = rank; d-- > 0;) {
        if (++index[d] < grid[d]) break;
        index[d] = 0;
      }
    }
    const ChunkNeed got = NeedOfBoxes(shape, chunk, boxes);
    ASSERT_EQ(got.chunk_count, want.chunk_count) << "round " << round;
    ASSERT_EQ(got.read_elements, want.read_elements) << "round " << round;
    ASSERT_EQ(got.need_elements, want.need_elements) << "round " << round;
  }
}

}  // namespace
}  // namespace holdfast
