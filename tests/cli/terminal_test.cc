// The output in terminals of several widths, and the questions that verbs ask
// there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/fake_checkpoint.h"
#include "tests/cli/golden_text.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;

FakeCheckpoint Model() {
  FakeCheckpoint c;
  c.info.format = "orbax";
  for (const int layer : {0, 1, 11}) {
    const std::string block =
        "params.transformer.layer_" + std::to_string(layer) + ".attention.";
    c.leaves.push_back(RawLeaf(block + "query_key_value.kernel",
                               DType::kBfloat16, {128, 384},
                               std::string(128 * 384 * 2, '\0')));
    c.leaves.push_back(
        ArrayLeaf<float>(block + "bias", DType::kFloat32, {4}, {1, 2, 3, 4}));
  }
  c.leaves.push_back(ArrayLeaf<int64_t>("step", DType::kInt64, {}, {7}));
  c.leaves.push_back(TextLeaf("größe", ValueKind::kString, "text"));
  return c;
}

class Terminal : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    ClearWorld();
    PutCheckpoint("/model", Model());
    StepInfo step{.name = "checkpoint_000000100", .step = 100};
    step.path = "/root/checkpoint_000000100";
    step.committed = true;
    step.commit_timestamp_ns = 1795201191302735606;
    step.bytes = 123456789;
    step.items = {"state", "dataset"};
    step.metrics = R"({"accuracy": 0.9375, "loss": 0.015625, "seen": 12800})";
    PutSteps("/root", {step});
  }
};

FakeCheckpoint Damaged() {
  FakeCheckpoint c = Model();
  c.report.leaf_count = 8;
  c.report.damages = {
      {.leaf = "params.transformer.layer_11.attention.query_key_value.kernel",
       .file = "ocdbt.process_0/d/0123456789abcdef0123456789abcdef",
       .offset = 1234567,
       .status = DataLossError("crc32c does not match (got 1, want 2)")}};
  c.report.notes = {"3 values carry no checksum"};
  return c;
}

TEST_P(Terminal, ShowsWhatItDid) {
  PutCheckpoint("/damaged", Damaged());
  const std::vector<std::string> plan = {
      "plan",   "--mesh=data=2,model=2",       "--spec=data,model", "--ranks=2",
      "/model", "params.transformer.**.kernel"};
  std::vector<std::string> devices = plan;
  devices.insert(devices.begin() + 1, "--long");
  const std::string text = TerminalText({{"ls", "/model"},
                                         {"ls", "--long", "/model"},
                                         {"ls", "--wide", "/model", "step"},
                                         {"tree", "/model"},
                                         {"info", "/model"},
                                         {"steps", "/root"},
                                         {"verify", "/damaged"},
                                         plan,
                                         devices},
                                        GetParam());
  CompareWithGolden("terminal_" + std::to_string(GetParam()), text);
  // Totals, trees, damages and the output of `info` are not tables.
  ExpectFits(text, GetParam(),
             {"8 leaves", "damaged: ", "1 damage", "4 devices", "│", "├",
              "(--wide", "kinds", "dtypes", "     "});
}

INSTANTIATE_TEST_SUITE_P(Widths, Terminal, ::testing::Values(60, 80, 120));

TEST_F(Terminal, PipesGetWholeNames) {
  const Ran ran =
      RunWords({"ls", "/model"}, [](cli::Env& env) { env.columns = 60; });
  EXPECT_THAT(ran.out, HasSubstr("layer_11.attention.query_key_value.kernel"));
}

TEST_F(Terminal, ListingsOfTerminalsAskForAPager) {
  const auto asks = [](std::vector<std::string> words, bool is_terminal) {
    bool has_asked = false;
    RunWords(words, [&](cli::Env& env) {
      env.out_is_terminal = is_terminal;
      env.start_pager = [&] { has_asked = true; };
    });
    return has_asked;
  };
  for (const char* verb : {"ls", "tree"}) {
    EXPECT_TRUE(asks({verb, "/model"}, true));
    EXPECT_FALSE(asks({verb, "/model"}, false));
    EXPECT_FALSE(asks({verb, "/model", "--no-pager"}, true));
    EXPECT_FALSE(asks({verb, "/model", "--json"}, true));
  }
  EXPECT_TRUE(asks({"steps", "/root"}, true));
}

size_t CountOf(const std::vector<std::string>& words) {
  std::vector<std::string> line = {"ls", "--json", "/model"};
  line.insert(line.end(), words.begin(), words.end());
  const Ran ran = RunWords(line);
  EXPECT_EQ(ran.code, 0) << ran.err;
  return nlohmann::json::parse(ran.out)["leaves"].size();
}

TEST_F(Terminal, PatternsKnowBracesSlashesAndStars) {
  EXPECT_EQ(CountOf({"params/transformer/layer_{0,1}"}), 4u);
  EXPECT_EQ(CountOf({"**.bias"}), 3u);
  EXPECT_EQ(CountOf({"params/**/bias"}), 3u);
  EXPECT_EQ(CountOf({"{step,gr*}"}), 2u);
  EXPECT_EQ(CountOf({"*layer_{1,{0,2}}.*"}), 4u);
}

TEST_F(Terminal, RegularExpressionsMatchWholeNames) {
  EXPECT_EQ(CountOf({"--regex", R"(.*layer_\d\..*)"}), 4u);
  EXPECT_EQ(CountOf({"--regex", "(?i)STEP"}), 1u);
  const Ran none = RunWords({"ls", "/model", "--regex", "tep"});
  EXPECT_EQ(none.code, 3);
  EXPECT_THAT(none.err, HasSubstr("did you mean step?"));
  const Ran bad = RunWords({"ls", "/model", "--regex", "(step"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("regular expression"));
}

TEST_F(Terminal, WhatMatchesNothingSuggests) {
  EXPECT_THAT(RunWords({"ls", "/model", "setp"}).err,
              HasSubstr("no leaf matches 'setp' (did you mean step?)"));
  EXPECT_THAT(RunWords({"ls", "/model", "parms.*"}).err,
              HasSubstr("(did you mean params?)"));
  EXPECT_THAT(RunWords({"ls", "/model", "layer_11.*"}).err,
              HasSubstr("layer_11.attention.query_key_value.kernel"));
  EXPECT_THAT(RunWords({"ls", "/model", "unheard-of"}).err,
              HasSubstr("(holdfast ls lists the leaves)"));
}

TEST_F(Terminal, ErrorsAreJsonWhereTheAnswerWouldBe) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{
           {"ls", "--json", "/lost"}, {"ls", "--json", "/model", "--bad"}}) {
    const Ran ran = RunWords(words);
    const auto error = nlohmann::json::parse(ran.err);
    EXPECT_EQ(error["exit_code"], ran.code);
    EXPECT_FALSE(error["error"].get<std::string>().empty());
  }
}

TEST_F(Terminal, EveryObjectHasItsPath) {
  for (const char* verb : {"ls", "tree", "info", "digest", "verify"}) {
    const Ran ran = RunWords({verb, "--json", "/model"});
    EXPECT_TRUE(nlohmann::json::parse(ran.out).contains("path")) << verb;
  }
  const Ran steps = RunWords({"steps", "--json", "/root"});
  EXPECT_EQ(nlohmann::json::parse(steps.out)["path"], "/root");
}

TEST_F(Terminal, HintsAreOfTheVerbAtHand) {
  EXPECT_THAT(RunWords({"cat"}).err,
              HasSubstr("hint: holdfast cat PATH [NAME[SLICE]]"));
  EXPECT_THAT(RunWords({"unheard-of"}).err, HasSubstr("--help"));
}

}  // namespace
}  // namespace holdfast::testing
