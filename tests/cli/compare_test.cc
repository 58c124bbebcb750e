// diff, stats, merge and rescue with the real library and real checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "holdfast/checkpoint.h"
#include "tests/cli/run_words.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ComparedJson = nlohmann::json;

class CompareVerbs : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
    Put("a", 1, {1, 2, 3, 4});
    Put("b", 1, {1, 2, 3.5, NAN});
    Put("c", 1, {3, 4, 5, 6});
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Put(const std::string& name, int64_t step, std::vector<float> w) {
    const Array array = Array::FromBytes(DType::kFloat32, {2, 2}, w.data());
    SaveOptions options;
    options.sync = false;
    const Tree tree =
        Tree::Dict({{"params", Tree::Dict({{"w", array}})}, {"step", step}});
    ASSERT_TRUE(Save(Path(name), tree, options).ok());
  }

  std::string Path(const std::string& name) const { return root_ + "/" + name; }

  const std::string root_ = ::testing::TempDir() + "/cli_compare_test";
};

TEST_F(CompareVerbs, DiffPrintsTheWorstAndExits) {
  const Ran same = RunWords({"diff", Path("a"), Path("a")});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_EQ(same.out, "same: 2 leaves the same\n");
  const Ran ran = RunWords({"diff", Path("a"), Path("b")});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, HasSubstr("values  params.w  float32[2,2]  =  "
                                 "      2/4      0.5    0.143  "
                                 "[1,0] 3.0 != 3.5, NaN on one side: 1\n"));
  EXPECT_THAT(ran.out,
              HasSubstr("different: 1 leaf the same, 1 different; max abs "
                        "error 0.5, max rel error 0.143\n"));
  const auto json = ComparedJson::parse(
      RunWords({"diff", "--json", Path("a"), Path("b")}).out);
  EXPECT_EQ(json["same"], false);
  EXPECT_EQ(json["leaves"][0]["what"], "values");
  EXPECT_EQ(json["leaves"][0]["first_index"], (std::vector<int>{1, 0}));
  EXPECT_EQ(json["leaves"][0]["nan_mismatch_count"], 1);
  EXPECT_EQ(RunWords({"diff", Path("a"), Path("b"), "step"}).code, 0);
  EXPECT_EQ(RunWords({"diff", Path("a"), Path("b"), "nothing"}).code, 3);
  EXPECT_EQ(RunWords({"diff", "--atol=2", Path("a"), Path("c")}).code, 0);
  EXPECT_EQ(RunWords({"diff", "--atol=-2", Path("a"), Path("c")}).code, 2);
  EXPECT_EQ(RunWords({"diff", "--only-structure", Path("a"), Path("c")}).code,
            0);
  EXPECT_EQ(RunWords({"diff", Path("a"), Path("none")}).code, 3);
}

TEST_F(CompareVerbs, DiffByFingerprintReadsNoTensor) {
  const auto put = [&](const std::string& name, std::vector<float> w) {
    SaveOptions options;
    options.sync = false;
    options.fingerprints = true;
    options.use_ocdbt = false;
    const Tree tree = Tree::Dict({{"v", Tree(1)}, {"w", Array::Of(w)}});
    ASSERT_TRUE(Save(Path(name), tree, options).ok());
    // Removes the elements of "w", so that any read of them fails.
    std::filesystem::remove(Path(name) + "/w/0");
  };
  put("x", {1, 2});
  put("y", {1, -2});
  put("z", {1, 2});
  const Ran same = RunWords({"diff", "--fingerprint", Path("x"), Path("z")});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_EQ(same.out, "same: 2 leaves the same\n");
  const Ran ran = RunWords({"diff", "--fingerprint", Path("x"), Path("y")});
  EXPECT_EQ(ran.code, 1) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("bits  w     float32[2]"));
  EXPECT_THAT(ran.out, HasSubstr("different: 1 leaf the same, 1 different\n"));
  const Ran none = RunWords({"diff", "--fingerprint", Path("x"), Path("a")});
  EXPECT_EQ(none.code, 1);  // the checkpoints have no leaf in common
  const Ran without = RunWords({"diff", "--fingerprint", Path("a"), Path("b")});
  EXPECT_EQ(without.code, 3);
  EXPECT_THAT(without.err,
              HasSubstr("a: leaf params.w has no fingerprint; compare values, "
                        "or save with fingerprints"));
  EXPECT_EQ(
      RunWords({"diff", "--fingerprint", "--rtol=1", Path("x"), Path("y")})
          .code,
      2);
}

TEST_F(CompareVerbs, DiffFollowsRenames) {
  ASSERT_EQ(RunWords({"convert", "--map", "params/(.*)=weights/\\1", Path("a"),
                      Path("renamed")})
                .code,
            0);
  const Ran guessed = RunWords({"diff", Path("a"), Path("renamed")});
  EXPECT_EQ(guessed.code, 1);
  EXPECT_THAT(guessed.out, HasSubstr("equals B's weights.w"));
  const Ran plain =
      RunWords({"diff", "--no-renames", Path("a"), Path("renamed")});
  EXPECT_THAT(plain.out, Not(HasSubstr("equals")));
  std::ofstream(Path("table")) << "params/(.*)=weights/\\1\n";
  for (const auto& rule : std::vector<std::vector<std::string>>{
           {"--map", "params/(.*)=weights/\\1"},
           {"--map-file", Path("table")}}) {
    EXPECT_EQ(
        RunWords({"diff", rule[0], rule[1], Path("a"), Path("renamed")}).code,
        0);
  }
}

TEST_F(CompareVerbs, StatsPrintsAndFindsNaN) {
  const Ran ran = RunWords({"stats", Path("a"), "params"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(
      ran.out,
      HasSubstr(
          "params.w  float32[2,2]    1    4   2.5  1.11803  5.47723      0    "
          "0    0\n1 tensor, 4 elements, 16 B, l2 5.47723, absmax 4, 0 zeros, "
          "0 NaN, 0 infinite\n"));
  EXPECT_EQ(RunWords({"stats", "--nan", Path("a")}).code, 0);
  const Ran bad = RunWords({"stats", "--nan", "--json", Path("b")});
  EXPECT_EQ(bad.code, 1);
  const auto json = ComparedJson::parse(bad.out);
  ASSERT_EQ(json["leaves"].size(), 1u);
  EXPECT_EQ(json["leaves"][0]["nan_count"], 1);
  EXPECT_EQ(json["leaves"][0]["max"], 3.5);
  EXPECT_EQ(json["leaf_count"], 2);
  const Ran sorted = RunWords({"stats", "-q", "--sort=absmax", Path("a")});
  EXPECT_LT(sorted.out.find("params.w"), sorted.out.find("step"));
  EXPECT_EQ(RunWords({"ls", "--sort=absmax", Path("a")}).code, 2);
}

TEST_F(CompareVerbs, MergeAveragesAndPutsTogether) {
  const Ran ran = RunWords(
      {"merge", Path("a"), Path("c"), Path("soup"), "--weights", "0.75,0.25"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("ok: 2 leaves of 2 sources"));
  EXPECT_EQ(RunWords({"cat", Path("soup"), "params.w"}).out,
            "[[1.5 2.5]\n [3.5 4.5]]\n");
  const Ran refused = RunWords({"merge", Path("a"), Path("c"), Path("both")});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("leaf params.w"));
  EXPECT_FALSE(std::filesystem::exists(Path("both")));
  const Ran prefixed = RunWords({"merge", "--json", "--prefix=,other",
                                 Path("a"), Path("c"), Path("both")});
  EXPECT_EQ(prefixed.code, 0) << prefixed.err;
  EXPECT_EQ(ComparedJson::parse(prefixed.out)["leaf_count"], 4);
  EXPECT_EQ(RunWords({"cat", Path("both"), "other.params.w[0,0]"}).out,
            "3.0\n");
  EXPECT_EQ(RunWords({"merge", Path("a"), Path("c")}).code, 2);
  EXPECT_EQ(
      RunWords({"merge", "--weights=1", Path("a"), Path("c"), Path("x")}).code,
      2);
}

TEST_F(CompareVerbs, RescueSaysWhatIsLostAndFillsIt) {
  EXPECT_EQ(RunWords({"rescue", Path("a"), Path("whole")}).code, 0);
  const Ran plain =
      RunWords({"convert", "--ocdbt=no", Path("b"), Path("torn")});
  ASSERT_EQ(plain.code, 0) << plain.err;
  std::filesystem::remove(Path("torn/params.w/0.0"));
  const Ran ran = RunWords({"rescue", Path("torn"), Path("out")});
  EXPECT_EQ(ran.code, 1) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("lost: params.w: params.w/0.0: "));
  EXPECT_THAT(ran.out, HasSubstr("1 leaf recovered, 1 lost: "));
  const Ran filled = RunWords(
      {"rescue", "--json", "--fill", Path("b"), Path("torn"), Path("filled")});
  EXPECT_EQ(filled.code, 1) << filled.err;
  const auto json = ComparedJson::parse(filled.out);
  EXPECT_EQ(json["lost"][0]["leaf"], "params.w");
  EXPECT_EQ(json["lost"][0]["filled"], true);
  EXPECT_EQ(json["filled_count"], 1);
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(RunWords({"diff", "--bits", Path("b"), Path("filled")}).code, 0);
  EXPECT_EQ(RunWords({"rescue", Path("torn"), Path("out")}).code, 3);
  EXPECT_EQ(RunWords({"rescue", Path("torn")}).code, 2);
}

}  // namespace
}  // namespace holdfast::testing
