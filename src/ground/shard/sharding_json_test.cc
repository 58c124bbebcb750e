#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "holdfast/sharding.h"

namespace holdfast {
namespace {

TEST(ShardingJson, EveryGoldenTextComesBackByteForByte) {
  std::ifstream file(std::string(HOLDFAST_SOURCE_DIR) +
                     "/tests/golden/format/sharded/_sharding");
  const auto entries = nlohmann::json::parse(
      std::string((std::istreambuf_iterator<char>(file)), {}));
  ASSERT_EQ(entries.size(), 10u);
  for (const auto& [name, entry] : entries.items()) {
    const std::string text = entry.get<std::string>();
    const auto sharding = ShardingFromJson(text);
    ASSERT_TRUE(sharding.ok()) << sharding.status().ToString();
    EXPECT_EQ(ShardingToJson(*sharding), text);
  }
}

// Texts as orbax-checkpoint 0.12.8 writes them.
constexpr const char* kTexts[] = {
    R"({"sharding_type": "NamedSharding", "shape": [], "axis_names": [], "axis_types": [], "partition_spec": [], "device_mesh": {"mesh": {"id": 0}}})",
    R"({"sharding_type": "NamedSharding", "shape": [2, 1], "axis_names": ["\u00e9\"", "b"], "axis_types": ["AxisType.Explicit", "AxisType.Manual"], "partition_spec": ["\u00e9\"", "b"], "device_mesh": {"mesh": [[{"id": 2048}], [{"id": 1}]]}})",
    R"({"sharding_type": "NamedSharding", "shape": [1, 2], "axis_names": ["data", "model"], "axis_types": ["AxisType.Auto", "AxisType.Auto"], "partition_spec": [["model", "data"], null], "device_mesh": {"mesh": [[{"id": 0}, {"id": 1}]]}})",
    R"({"sharding_type": "SingleDeviceSharding", "device_str": "TFRT_CPU_0"})",
};

TEST(ShardingJson, OddTextsComeBackByteForByte) {
  for (const char* text : kTexts) {
    const auto sharding = ShardingFromJson(text);
    ASSERT_TRUE(sharding.ok()) << sharding.status().ToString();
    EXPECT_EQ(ShardingToJson(*sharding), text);
  }
}

TEST(ShardingJson, ReadsTheParts) {
  const auto sharding = ShardingFromJson(kTexts[1]);
  ASSERT_TRUE(sharding.ok());
  const NamedSharding want{
      {{"é\"", "b"}, {2, 1}, {2048, 1}, {"Explicit", "Manual"}},
      {{"é\""}, {"b"}}};
  EXPECT_EQ(*sharding, Sharding(want));
}

TEST(ShardingJson, OldFilesNameNoTypesAndNoDevices) {
  const auto sharding = ShardingFromJson(
      R"({"sharding_type": "NamedSharding", "shape": [2], "axis_names": ["a"],)"
      R"( "partition_spec": [["a"]]})");
  ASSERT_TRUE(sharding.ok()) << sharding.status().ToString();
  EXPECT_EQ(*sharding, Sharding(NamedSharding{{{"a"}, {2}, {}, {}}, {{"a"}}}));
  EXPECT_EQ(ShardingToJson(*sharding),
            R"({"sharding_type": "NamedSharding", "shape": [2], )"
            R"("axis_names": ["a"], "axis_types": ["AxisType.Auto"], )"
            R"("partition_spec": ["a"], "device_mesh": {"mesh": [{"id": 0}, )"
            R"({"id": 1}]}})");
}

TEST(ShardingJson, SaysWhatOrbaxDoesNotRestore) {
  EXPECT_EQ(
      ShardingFromJson(R"({"sharding_type": "PositionalSharding"})")
          .status()
          .ToString(),
      InvalidArgumentError("jax.sharding.PositionalSharding has been "
                           "deprecated. Please use jax.NamedSharding instead.")
          .ToString());
  EXPECT_EQ(ShardingFromJson(R"({"sharding_type": "GSPMDSharding"})")
                .status()
                .ToString(),
            UnimplementedError(
                "Conversion for GSPMDSharding has not been implemented.")
                .ToString());
}

TEST(ShardingJson, DamagedTextsAreDataLoss) {
  const char* texts[] = {
      "",
      "[]",
      "{}",
      R"({"sharding_type": 1})",
      R"({"sharding_type": "SingleDeviceSharding"})",
      R"({"sharding_type": "SingleDeviceSharding", "device_str": null})",
      R"({"sharding_type": "NamedSharding", "shape": [1], "axis_names": ["a"]})",
      R"({"sharding_type": "NamedSharding", "shape": [1.5], "axis_names": ["a"], "partition_spec": []})",
      R"({"sharding_type": "NamedSharding", "shape": [1, 1], "axis_names": ["a"], "partition_spec": []})",
      R"({"sharding_type": "NamedSharding", "shape": [1], "axis_names": ["a"], "partition_spec": [1]})",
      R"({"sharding_type": "NamedSharding", "shape": [1], "axis_names": ["a"], "partition_spec": [], "axis_types": ["Auto"]})",
      R"({"sharding_type": "NamedSharding", "shape": [1], "axis_names": ["a"], "partition_spec": [], "device_mesh": {"mesh": [{"id": "0"}]}})",
      R"({"sharding_type": "NamedSharding", "shape": [2], "axis_names": ["a"], "partition_spec": [], "device_mesh": {"mesh": [{"id": 0}]}})",
      R"({"sharding_type": "NamedSharding", "shape": [4611686018427387904], "axis_names": ["a"], "partition_spec": []})",
  };
  for (const char* text : texts) {
    EXPECT_EQ(ShardingFromJson(text).status().code(), StatusCode::kDataLoss)
        << text;
  }
}

}  // namespace
}  // namespace holdfast
