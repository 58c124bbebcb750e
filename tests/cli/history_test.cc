// log, bisect and step addresses with the real library and real roots.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/sparkline.h"
#include "holdfast/checkpoint.h"
#include "holdfast/pending_save.h"
#include "tests/cli/run_words.h"

namespace holdfast::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using HistoryJson = nlohmann::json;

class HistoryVerbs : public ::testing::Test {
 protected:
  // Steps 1 to 8, one minute apart; step 1 was committed at 1970-01-01T00:01.
  // `w` is NaN from step 6 on, and the loss is 10 minus the step.
  void SetUp() override {
    fs::remove_all(root_);
    for (int64_t step = 1; step <= 8; ++step) {
      PendingSaveOptions options;
      options.sync = false;
      options.now_ns = [=] { return step * 60'000'000'000; };
      auto pending =
          PendingSave::Begin(root_ + "/" + std::to_string(step), options);
      ASSERT_TRUE(pending.ok()) << pending.status().ToString();
      SaveOptions item;
      item.sync = false;
      const Tree state =
          Tree::Dict({{"w", step < 6 ? 1.0 : std::nan("")}, {"n", step}});
      ASSERT_TRUE((*pending)->SaveItem("state", state, item).ok());
      ASSERT_TRUE((*pending)
                      ->WriteFile("metrics/metrics",
                                  R"({"loss": )" + std::to_string(10 - step) +
                                      R"(, "acc": 0.5})")
                      .ok());
      ASSERT_TRUE((*pending)->Commit({}).ok());
    }
  }
  void TearDown() override { fs::remove_all(root_); }

  const std::string root_ = ::testing::TempDir() + "holdfast_history_verbs";
};

TEST(SparklineTest, BarsGoFromTheLeastToTheGreatest) {
  using cli::Sparkline;
  EXPECT_EQ(Sparkline({0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0}, 0, true),
            "▁▂▃▄▅▆▇█");
  EXPECT_EQ(Sparkline({0.0, 3.5, 7.0}, 0, false), "047");
  EXPECT_EQ(Sparkline({5.0, std::nullopt, 5.0, std::nan("")}, 0, false),
            "0 0x");
  EXPECT_EQ(Sparkline({0.0, 2.0, 7.0, 9.0, std::nullopt, 4.0}, 3, false),
            "073");
  EXPECT_EQ(Sparkline({-1e308, 1e308, INFINITY}, 0, false), "07x");
  EXPECT_EQ(Sparkline({}, 10, true), "");
}

TEST_F(HistoryVerbs, LogListsTheNewestStepFirst) {
  const Ran log = RunWords({"log", root_, "-n", "2"});
  EXPECT_EQ(log.code, 0) << log.err;
  EXPECT_THAT(log.out,
              MatchesRegex("STEP +TIME +SIZE +SAVED IN +METRICS +STATE\n"
                           " +8 +1970-01-01T00:08:00.000Z .* 0.00 s +"
                           "acc=0.5 loss=2 +committed\n"
                           " +7 .* loss=3 +committed\n"));
  std::ofstream(root_ + "/7/metrics/metrics") << "{";
  fs::create_directories(root_ + "/9");
  const std::string out = RunWords({"log", root_}).out;
  EXPECT_THAT(out, HasSubstr("damaged: "));
  EXPECT_THAT(out, HasSubstr("no: No structure could be identified"));
}

TEST_F(HistoryVerbs, LogDrawsAMetricAndNamesWhatMoved) {
  const Ran drawn = RunWords({"log", root_, "--metric", "loss", "--count=3"});
  EXPECT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_THAT(drawn.out, HasSubstr("loss █▅▁\nleast 2 (step 8), greatest 4 "
                                   "(step 6)\n"));
  const Ran unknown = RunWords({"log", root_, "--metric=los"});
  EXPECT_EQ(unknown.code, 3);
  EXPECT_THAT(unknown.err,
              HasSubstr("no step has a metric los; there are acc, loss"));
  const Ran moved = RunWords({"log", root_, "--moved", "-n", "1"});
  EXPECT_THAT(moved.out, HasSubstr("state.n 0.1429"));
}

TEST_F(HistoryVerbs, LogWritesJson) {
  const Ran log = RunWords({"log", root_, "--json", "--moved", "--count", "2"});
  EXPECT_EQ(log.code, 0) << log.err;
  const HistoryJson steps = HistoryJson::parse(log.out)["steps"];
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0]["step"], 8);
  EXPECT_EQ(steps[0]["save_seconds"], 0);
  EXPECT_EQ(steps[0]["metrics"]["loss"], 2);
  EXPECT_EQ(steps[0]["moved_against"], "7");
  EXPECT_EQ(steps[0]["moved"][0]["name"], "state.n");
}

TEST_F(HistoryVerbs, BisectFindsTheFirstBadStep) {
  const Ran found = RunWords({"bisect", root_, "--bad-if", "nan(state.w)"});
  EXPECT_EQ(found.code, 0) << found.err;
  EXPECT_EQ(found.out,
            "step 8: bad: nan(state.w) is 1\n"
            "step 1: good: nan(state.w) is 0\n"
            "step 4: good: nan(state.w) is 0\n"
            "step 6: bad: nan(state.w) is 1\n"
            "step 5: good: nan(state.w) is 0\n"
            "first bad step: 6 (" +
                root_ +
                "/6)\n"
                "last good step: 5 (" +
                root_ +
                "/5)\n"
                "looked at 5 of 8 steps, read 5 tensors (40 B)\n");
  const Ran quiet =
      RunWords({"bisect", "-q", root_, "--bad-if", "metric(loss) < 4.5"});
  EXPECT_EQ(quiet.out, "first bad step: 6 (" + root_ + "/6)\n");
}

TEST_F(HistoryVerbs, BisectNamesCandidatesWhereStepsWereSkipped) {
  fs::remove_all(root_ + "/5/state");
  const Ran found = RunWords({"bisect", root_, "--bad-if=nan(state.w)"});
  EXPECT_EQ(found.code, 1) << found.err;
  EXPECT_THAT(found.out, HasSubstr("step 5: skipped: "));
  EXPECT_THAT(found.out, HasSubstr("the first bad step is one of 5 6: all but "
                                   "the last were skipped\n"));
  const Ran as_json =
      RunWords({"bisect", root_, "--bad-if=nan(state.w)", "--json"});
  EXPECT_EQ(as_json.code, 1);
  const HistoryJson json = HistoryJson::parse(as_json.out);
  EXPECT_TRUE(json["first_bad"].is_null());
  EXPECT_EQ(json["last_good"]["step"], 4);
  EXPECT_EQ(json["candidates"].size(), 2u);
  EXPECT_EQ(json["probes"][0]["verdict"], "bad");
  EXPECT_EQ(json["step_count"], 8);
}

TEST_F(HistoryVerbs, BisectAsksACommandAsGitDoes) {
  // The command skips step 3 and calls step 6 and later steps bad.
  const std::string script =
      "n=$(basename {}); test $n = 3 && exit 125; echo looked; test $n -lt 6";
  const Ran found = RunWords({"bisect", root_, "--run", script});
  EXPECT_EQ(found.code, 0) << found.err;
  EXPECT_THAT(found.out, HasSubstr("step 8: bad: the command ended with 1\n"));
  EXPECT_THAT(found.out, HasSubstr("first bad step: 6 "));
  EXPECT_THAT(found.out, Not(HasSubstr("tensor")));
  EXPECT_THAT(
      RunWords({"bisect", root_, "--good=2", "--bad=6", "--run", script}).out,
      HasSubstr("looked at 4 of 5 steps\n"));
  const Ran missing =
      RunWords({"bisect", root_, "--run", "/no/such/program {}"});
  EXPECT_EQ(missing.code, 3);
  EXPECT_THAT(missing.err,
              HasSubstr("oldest step must be good, and is bad: step 1 (the "
                        "command ended with 127, as the shell does when it "
                        "cannot run it)"));
  const Ran stopped = RunWords({"bisect", root_, "--run", "exit 128 # {}"});
  EXPECT_EQ(stopped.code, 130);
  EXPECT_THAT(stopped.err, HasSubstr("ended with 128, which stops the search"));
}

// A step's directory may have any name that ends in its number, so the shell
// must not interpret the name.
TEST_F(HistoryVerbs, BisectGivesTheCommandAPathAndNoText) {
  const std::string name = "$(exit 9)`exit 9`'\"; exit 9; \"_9";
  fs::copy(root_ + "/8", root_ + "/" + name, fs::copy_options::recursive);
  const Ran found = RunWords({"bisect", root_, "--run",
                              "test -d {}/state && test -d \"{}/state\" && "
                              "test {} = \"$HOLDFAST_STEP\" || exit 200; "
                              "case {} in *_9) exit 1;; esac"});
  EXPECT_EQ(found.code, 0) << found.err;
  EXPECT_THAT(found.out, HasSubstr("first bad step: 9 "));
  for (const char* command : {"sh -c 'test -d {}'", "sh -c \"test -d {}\""}) {
    const Ran refused = RunWords({"bisect", root_, "--run", command});
    EXPECT_EQ(refused.code, 3) << refused.out;
    EXPECT_THAT(refused.err, HasSubstr("text of another program"));
  }
  const Ran plain = RunWords({"bisect", root_, "--bad=8", "--run",
                              "sh -c 'test $(basename {}) -lt 6'"});
  EXPECT_THAT(plain.out, HasSubstr("first bad step: 6 "));
}

TEST_F(HistoryVerbs, BisectSaysWhatIsWrong) {
  EXPECT_EQ(RunWords({"bisect", root_}).code, 2);
  EXPECT_EQ(RunWords({"bisect", root_, "--bad-if=nan(x)", "--run={}"}).code, 2);
  EXPECT_EQ(RunWords({"bisect", root_, "--run", "check"}).code, 2);
  const Ran wrong = RunWords({"bisect", root_, "--bad-if", "nan(x"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("column 4: this parenthesis is not closed"));
  const Ran good = RunWords({"bisect", root_, "--bad-if=inf(state.w)"});
  EXPECT_EQ(good.code, 3);
  EXPECT_THAT(good.err, HasSubstr("newest step must be bad, and is good"));
  EXPECT_EQ(RunWords({"bisect", root_ + "x", "--bad-if=nan(x)"}).code, 3);
}

TEST_F(HistoryVerbs, ReadersTakeAddressesOfSteps) {
  for (const char* verb : {"ls", "tree", "info", "stats", "verify", "digest"}) {
    const Ran run = RunWords({verb, root_ + "@step=3"});
    EXPECT_EQ(run.code, 0) << verb << run.err;
    EXPECT_THAT(RunWords({verb, root_ + "@step=30"}).err,
                HasSubstr("the nearest is 8"))
        << verb;
  }
  EXPECT_EQ(RunWords({"cat", root_ + "@best:loss", "state.n"}).out, "8\n");
  EXPECT_EQ(RunWords({"cat", root_ + "@best:max:loss", "state.n"}).out, "1\n");
  EXPECT_EQ(RunWords({"cat", root_ + "@1970-01-01T00:04", "state.n"}).out,
            "4\n");
  EXPECT_EQ(RunWords({"cat", root_ + "@2h ago", "state.n"}).out, "8\n");
  EXPECT_EQ(RunWords({"diff", root_ + "@step=2", root_ + "@best:max:acc"}).code,
            1);
  EXPECT_EQ(RunWords({"diff", root_ + "@latest", root_ + "/8"}).code, 0);
  EXPECT_EQ(RunWords({"report", root_ + "@latest", "-o", root_ + ".html"}).code,
            0);
  fs::remove(root_ + ".html");
}

TEST_F(HistoryVerbs, CopiesAreOfAStepAndNeverToOne) {
  const std::string copy = root_ + "_copy";
  fs::remove_all(copy);
  const Ran copied = RunWords({"cp", root_ + "@step=3", copy});
  EXPECT_EQ(copied.code, 0) << copied.err;
  EXPECT_EQ(RunWords({"cat", copy, "state.n"}).out, "3\n");
  fs::remove_all(copy);
  const Ran converted =
      RunWords({"convert", root_ + "@step=4", copy, "--to", "orbax"});
  EXPECT_EQ(converted.code, 0) << converted.err;
  EXPECT_EQ(RunWords({"cat", copy, "state.n"}).out, "4\n");
  fs::remove_all(copy);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"cp", root_ + "/3", copy + "@step=3"},
        {"convert", root_ + "/3", copy + "@latest", "--to", "safetensors"},
        {"convert", root_ + "/3", copy + "@2h ago", "--to", "orbax"}}) {
    const Ran refused = RunWords(words);
    EXPECT_EQ(refused.code, 2) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("nothing is written there"));
    EXPECT_FALSE(fs::exists(words[2]));
  }
}

}  // namespace
}  // namespace holdfast::testing
