// The verb plan: how it parses meshes and specs, and the plans that it prints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/layout_text.h"
#include "tests/cli/fake_checkpoint.h"
#include "tests/cli/run_words.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

// As Orbax writes it with two processes of two CPU devices each.
constexpr const char* kStored =
    R"({"sharding_type": "NamedSharding", "shape": [2, 2], "axis_names": )"
    R"(["data", "model"], "axis_types": ["AxisType.Auto", "AxisType.Auto"], )"
    R"("partition_spec": ["data"], "device_mesh": {"mesh": [[{"id": 0}, )"
    R"({"id": 1}], [{"id": 2048}, {"id": 2049}]]}})";

FakeLeaf Jax(const std::string& name, Shape shape, Shape chunk_shape,
             const std::string& sharding_json) {
  FakeLeaf leaf = RawLeaf(name, DType::kFloat32, std::move(shape), "");
  leaf.info.chunk_shape = std::move(chunk_shape);
  leaf.info.value_type = "jax.Array";
  leaf.info.sharding_json = sharding_json;
  return leaf;
}

class PlanVerb : public ::testing::Test {
 protected:
  void SetUp() override {
    ClearWorld();
    FakeCheckpoint c;
    c.leaves = {
        Jax("params.w", {8, 6}, {4, 6}, kStored),
        Jax("params.b", {6}, {6}, ""),
        RawLeaf("noise", DType::kInt8, {4}, ""),
        RawLeaf("step", DType::kInt64, {}, ""),
        TextLeaf("name", ValueKind::kString, "x"),
    };
    c.leaves[2].info.value_type = "np.ndarray";
    c.leaves[3].info.value_type = "scalar";
    PutCheckpoint("/c", c);
  }
};

TEST_F(PlanVerb, ShowsWhoHoldsAndWritesWhat) {
  const Ran ran = RunWords({"plan", "--long", "--mesh=data=2,model=2",
                            "--spec=data", "--ranks=2", "/c", "params.w"});
  EXPECT_EQ(ran.err, "");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(
      ran.out,
      "NAME      TYPE          SPEC  SHARD  WRITE  CHUNK  REPLICAS  CHUNKS  "
      "NEEDS  READS\n"
      "params.w  float32[8,6]  data  [4,6]  [2,6]  [4,6]         2       2  "
      "192 B  1.00x\n"
      "\n"
      "NAME      PROCESS  DEVICE  REPLICA  HOLDS      WRITES\n"
      "params.w        0       0        0  [0:4,0:6]  [0:2,0:6]\n"
      "params.w        0       1        1  [0:4,0:6]  [2:4,0:6]\n"
      "params.w        1       2        0  [4:8,0:6]  [4:6,0:6]\n"
      "params.w        1       3        1  [4:8,0:6]  [6:8,0:6]\n"
      "\n"
      "PROCESS  WRITES  NEEDS  READS  CHUNKS\n"
      "      0    96 B   96 B   96 B       1\n"
      "      1    96 B   96 B   96 B       1\n"
      "4 devices, 2 processes, written 192 B, the busiest 1.00x the mean; read "
      "192 B for 192 B needed, 1.00x\n");
}

TEST_F(PlanVerb, JsonHasTheSame) {
  const Json json = Json::parse(
      RunWords({"plan", "--json", "--mesh=x=3", "--spec=None,x", "/c"}).out);
  EXPECT_EQ(json["device_count"], 3);
  EXPECT_EQ(json["process_count"], 3);
  const Json& w = json["leaves"][0];
  EXPECT_EQ(w["spec"], Json::parse(R"([[], ["x"]])"));
  EXPECT_EQ(w["shard_shape"], Json({8, 2}));
  EXPECT_EQ(w["devices"][2]["origin"], Json({0, 4}));
  EXPECT_EQ(w["devices"][2]["write_origin"], Json({0, 4}));
  // Each process needs a third of the columns, and therefore both chunks.
  EXPECT_EQ(w["processes"][1]["chunk_count"], 2);
  EXPECT_EQ(w["processes"][1]["need_bytes"], 64);
  EXPECT_EQ(w["processes"][1]["read_bytes"], 192);
  // The spec needs two dimensions and `b` has one: each device holds a complete
  // copy and writes a third.
  const Json& b = json["leaves"][1];
  EXPECT_EQ(b["spec"], Json::array());
  EXPECT_EQ(b["write_shape"], Json({2}));
  EXPECT_EQ(b["writer_count"], 3);
  EXPECT_EQ(b["devices"][1]["replica"], 1);
  // Only process 0 writes leaves that are not device arrays; all processes read
  // them.
  const Json& noise = json["leaves"][2];
  EXPECT_TRUE(noise["spec"].is_null());
  EXPECT_EQ(noise["devices"], Json::array());
  EXPECT_EQ(noise["processes"][0]["write_bytes"], 4);
  EXPECT_EQ(noise["processes"][2]["write_bytes"], 0);
  EXPECT_EQ(noise["processes"][2]["need_bytes"], 4);
  EXPECT_EQ(json["leaves"].size(), 4u);
  EXPECT_EQ(json["processes"][0]["write_bytes"], 64 + 8 + 4 + 8);
  EXPECT_EQ(json["processes"][1]["write_bytes"], 64 + 8);
  EXPECT_NEAR(json["write_balance"], 84. * 3 / 228, 1e-12);
  EXPECT_NEAR(json["read_amplification"], (3 * 192. + 3 * 36) / (192 + 3 * 36),
              1e-12);
}

TEST_F(PlanVerb, StoredShardingsAreTheDefault) {
  const Json json = Json::parse(RunWords({"plan", "--json", "/c"}).out);
  EXPECT_EQ(json["process_count"], 4);
  const Json& w = json["leaves"][0];
  EXPECT_EQ(w["devices"][2]["device"], 2048);
  EXPECT_EQ(w["devices"][2]["process"], 2);
  EXPECT_EQ(w["write_shape"], Json({2, 6}));
  EXPECT_TRUE(json["leaves"][1]["spec"].is_null());
  const Json two =
      Json::parse(RunWords({"plan", "--json", "--ranks=2", "/c"}).out);
  EXPECT_EQ(two["leaves"][0]["devices"][2]["process"], 1);
  EXPECT_EQ(two["leaves"][0]["processes"][1]["chunk_count"], 1);
  // On another mesh the stored spec is kept if the mesh has its axes.
  const Json other =
      Json::parse(RunWords({"plan", "--json", "--mesh=data=8", "/c"}).out);
  EXPECT_EQ(other["leaves"][0]["spec"], Json::parse(R"([["data"]])"));
  EXPECT_EQ(other["leaves"][1]["spec"], Json::array());
  const Json without =
      Json::parse(RunWords({"plan", "--json", "--mesh=x=8", "/c"}).out);
  EXPECT_EQ(without["leaves"][0]["spec"], Json::array());
}

TEST_F(PlanVerb, TheLastMatchingSpecCounts) {
  const Json json = Json::parse(
      RunWords({"plan", "--json", "--mesh=a=2,b=2", "--spec=params=a",
                "--spec=a+b", "--spec=*.b=", "/c"})
          .out);
  EXPECT_EQ(json["leaves"][0]["spec"], Json::parse(R"([["a", "b"]])"));
  EXPECT_EQ(json["leaves"][1]["spec"], Json::array());
  EXPECT_EQ(json["leaves"][2]["spec"], Json::parse(R"([["a", "b"]])"));
  EXPECT_TRUE(json["leaves"][3]["spec"].is_null());
}

TEST_F(PlanVerb, TellsOfOneProcess) {
  const Json json =
      Json::parse(RunWords({"plan", "--json", "--mesh=a=4", "--spec=a",
                            "--ranks=2", "--rank=1", "/c", "params.w", "step"})
                      .out);
  EXPECT_EQ(json["leaves"][0]["devices"].size(), 2u);
  EXPECT_EQ(json["leaves"][0]["devices"][0]["device"], 2);
  ASSERT_EQ(json["processes"].size(), 1u);
  EXPECT_EQ(json["processes"][0]["process"], 1);
  EXPECT_EQ(json["processes"][0]["need_bytes"], 96 + 8);
  const Ran ran = RunWords({"plan", "--mesh=a=4", "--rank=4", "/c"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.err, "holdfast: --rank 4: there are 4 processes\n");
}

TEST_F(PlanVerb, WhatDoesNotFitIsToldLeafByLeaf) {
  const Ran ran =
      RunWords({"plan", "--json", "--mesh=a=4", "--spec=a", "/c", "params"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err,
              HasSubstr("leaf params.b: Sharding PartitionSpec('a') implies "
                        "that array axis 0 is partitioned 4 times"));
  const Json json = Json::parse(ran.out);
  EXPECT_THAT(std::string(json["leaves"][1]["error"]), HasSubstr("implies"));
  EXPECT_EQ(json["processes"][0]["need_bytes"], 48);
  const Ran unknown =
      RunWords({"plan", "--mesh=a=4", "--spec=q", "/c", "params.w"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("Resource axis: q"));
}

TEST_F(PlanVerb, RefusesLinesThatMakeNoSense) {
  const auto error = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"plan", "/c"});
    const Ran ran = RunWords(words);
    EXPECT_EQ(ran.code, 2);
    return ran.err;
  };
  EXPECT_EQ(error({"--spec=a"}), "holdfast: --spec needs --mesh\n");
  EXPECT_THAT(error({"--mesh=a"}),
              HasSubstr("--mesh: mesh: got 'a', want axes and their sizes"));
  EXPECT_THAT(error({"--mesh=a=2,a=2"}), HasSubstr("want each axis once"));
  EXPECT_THAT(error({"--mesh=a=0"}), HasSubstr("want axes"));
  EXPECT_THAT(error({"--mesh=a=9999999999"}), HasSubstr("not that of a grid"));
  EXPECT_THAT(error({"--mesh=a=2", "--spec=a,,"}), HasSubstr("--spec: spec"));
  EXPECT_THAT(error({"--mesh=a=2", "--ranks=3"}),
              HasSubstr("2 devices cannot be shared evenly by 3 processes"));
  EXPECT_THAT(error({"--ranks=0"}), HasSubstr("want a number of processes"));
}

TEST_F(PlanVerb, ManyProcessesAreSummedUp) {
  const Ran ran = RunWords({"plan", "--mesh=a=64", "/c", "params.b"});
  EXPECT_THAT(ran.out, HasSubstr("and 32 more processes (--long)\n"));
  EXPECT_THAT(RunWords({"plan", "-l", "--mesh=a=64", "/c"}).out,
              Not(HasSubstr("more processes")));
}

TEST(LayoutText, ReadsSpecs) {
  using cli::ParseSpecRule;
  using cli::SpecRule;
  EXPECT_EQ(*ParseSpecRule("a+b,None"),
            (SpecRule{std::nullopt, {{"a", "b"}, {}}}));
  EXPECT_EQ(*ParseSpecRule("p=q=a"), (SpecRule{"p=q", {{"a"}}}));
  EXPECT_EQ(*ParseSpecRule(""), (SpecRule{std::nullopt, {}}));
  for (const char* text : {"a+", "+", "a,,b", ",", "a+None", "x=,"}) {
    EXPECT_FALSE(ParseSpecRule(text).ok()) << text;
  }
  EXPECT_EQ(cli::SpecText({{"a", "b"}, {}}), "a+b,None");
}

}  // namespace
}  // namespace holdfast::testing
