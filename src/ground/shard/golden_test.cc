// Compares with JAX and Orbax themselves: tests/golden/shardings.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "holdfast/shard_plan.h"

namespace holdfast {
namespace {

using Json = nlohmann::json;

const Json& Cases() {
  static const Json* cases = [] {
    std::ifstream file(std::string(HOLDFAST_SOURCE_DIR) +
                       "/tests/golden/shardings/cases.json");
    std::stringstream text;
    text << file.rdbuf();
    return new Json(Json::parse(text.str()));
  }();
  return *cases;
}

NamedSharding ShardingOf(const Json& json) {
  NamedSharding sharding;
  sharding.mesh.axis_names = json["axis_names"];
  sharding.mesh.shape = json["mesh_shape"].get<Shape>();
  sharding.mesh.device_ids = json["device_ids"].get<std::vector<int64_t>>();
  sharding.spec = json["spec"];
  return sharding;
}

ReplicaOptions OptionsOf(const Json& json) {
  ReplicaOptions options;
  options.use_replica_parallel = json["use_replica_parallel"];
  if (!json["min_slice_bytes"].is_null()) {
    options.min_slice_bytes = json["min_slice_bytes"];
  }
  if (!json["max_replicas"].is_null()) {
    options.max_replicas = json["max_replicas"];
  }
  return options;
}

TEST(ShardingGolden, DevicesHoldAndWriteTheSame) {
  int compared = 0;
  for (const Json& json : Cases()) {
    if (json.contains("error")) continue;
    SCOPED_TRACE(json.dump());
    const Shape shape = json["shape"].get<Shape>();
    const auto planner = ShardPlanner::OfAll(ShardingOf(json));
    ASSERT_TRUE(planner.ok()) << planner.status().ToString();
    const auto layout =
        planner->Layout(shape, json["element_bytes"], OptionsOf(json));
    ASSERT_TRUE(layout.ok()) << layout.status().ToString();
    EXPECT_EQ(Json(layout->shard_shape), json["shard_shape"]);
    EXPECT_EQ(Json(layout->write_shape), json["write_shape"]);
    Json devices = Json::array(), writes = Json::array();
    const auto shares = planner->Shares(shape, *layout);
    ASSERT_TRUE(shares.ok());
    for (const DeviceShare& share : *shares) {
      const DeviceShard& shard = share.shard;
      EXPECT_EQ(shard.shape, layout->shard_shape);
      devices.push_back({shard.device_id, shard.replica_id, shard.origin});
      if (share.write_origin) {
        writes.push_back({shard.device_id, *share.write_origin});
      }
    }
    std::sort(writes.begin(), writes.end());
    ASSERT_EQ(devices, json["devices"]);
    ASSERT_EQ(writes, json["writes"]);
    ++compared;
  }
  EXPECT_GT(compared, 200);
}

TEST(ShardingGolden, TextsComeBackByteForByte) {
  for (const Json& json : Cases()) {
    if (json.contains("error")) continue;
    const std::string text = json["sharding"];
    const auto sharding = ShardingFromJson(text);
    ASSERT_TRUE(sharding.ok()) << sharding.status().ToString();
    EXPECT_EQ(ShardingToJson(*sharding), text);
    // Ignores axis types, which the cases do not specify.
    NamedSharding named = std::get<NamedSharding>(*sharding);
    named.mesh.axis_types.clear();
    EXPECT_EQ(named, ShardingOf(json));
  }
}

TEST(ShardingGolden, WhatJaxRefusesIsRefused) {
  int refused = 0, uneven = 0;
  for (const Json& json : Cases()) {
    if (!json.contains("error")) continue;
    const auto boxes = ShardBoxes(ShardingOf(json), json["shape"].get<Shape>());
    ASSERT_FALSE(boxes.ok()) << json.dump();
    const std::string want = json["error"];
    EXPECT_TRUE(boxes.status().message().ends_with(want))
        << boxes.status().ToString() << "\n"
        << want;
    ++refused;
    uneven += !want.empty();
  }
  EXPECT_GT(refused, 15);
  EXPECT_GT(uneven, 5);
}

}  // namespace
}  // namespace holdfast
