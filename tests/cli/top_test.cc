// The model and the layout of `holdfast top`, without a terminal or an engine,
// and its main loop, with a scripted terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <clocale>
#include <cmath>

#include "cli/failures.h"
#include "cli/top/cells.h"
#include "cli/top/layout.h"
#include "cli/top/model.h"
#include "tests/cli/fake_checkpoint.h"
#include "tests/cli/run_words.h"

namespace holdfast::testing {
namespace {

using namespace cli::top;  // NOLINT: what is tested
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

StepInfo Step(int64_t number, bool committed = true) {
  StepInfo step;
  step.name = std::to_string(number);
  step.step = number;
  step.path = "/run/" + step.name;
  step.committed = committed;
  if (!committed) step.why_not = "no marker";
  step.bytes = 3 << 20;
  step.commit_timestamp_ns = number * 1'000'000'000;
  step.metrics = R"({"loss": )" + std::to_string(number) + "}";
  return step;
}

std::string TextOf(const Line& line) {
  std::string text;
  for (const Span& span : line) text += span.text;
  return text;
}

std::string TextOf(const Screen& screen) {
  std::string text;
  for (const Line& line : screen) text += TextOf(line) + "\n";
  return text;
}

class TopTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // Determines the widths of characters.
    ASSERT_NE(std::setlocale(LC_CTYPE, "C.UTF-8"), nullptr);
    ClearWorld();
    FakeCheckpoint fake;
    const std::vector<float> four = {1, 2, 2, 4};
    for (const char* name : {"params.a.w", "params.b.w", "params.b.x"}) {
      fake.leaves.push_back(ArrayLeaf<float>(name, DType::kFloat32, {4}, four));
    }
    fake.leaves.push_back(TextLeaf("note", ValueKind::kString, "hello"));
    for (const char* path : {"/run/1", "/run/2", "/run/3", "/one"}) {
      PutCheckpoint(path, fake);
    }
    PutSteps("/run", {Step(1), Step(2), Step(3)});
  }

  State Root() {
    State state = NewState("/run", true, false);
    OnAnswer(state, StepsAnswer{{}, {Step(1), Step(2), Step(3)}, {}});
    return state;
  }
  static void Give(State& state) {
    auto checkpoint = Open(state.wanted, {});
    OnAnswer(state, OpenedAnswer{state.wanted, Status(),
                                 MakeOpened(*std::move(checkpoint))});
  }
  static std::string Text(const State& state, Size size = {},
                          bool utf8 = true) {
    return TextOf(Lay(state, {size, utf8, 10'000'000'000}));
  }
  static std::vector<Ask> Press(State& state, Key key) {
    return OnKey(state, key, 10);
  }
};

TEST_F(TopTest, OpensTheNewestStepAndMeasuresItsDriftFromTheOneBefore) {
  State state = NewState("/run", true, false);
  EXPECT_EQ(FirstAsks(state)[0].kind, AskKind::kList);
  const auto asks =
      OnAnswer(state, StepsAnswer{{}, {Step(1), Step(2), Step(3, false)}, {}});
  ASSERT_EQ(asks.size(), 1u);
  EXPECT_EQ(asks[0].kind, AskKind::kOpen);
  EXPECT_EQ(asks[0].path, "/run/2");
  EXPECT_EQ(asks[0].other, "/run/1");
  EXPECT_EQ(state.step, 1u);
}

TEST_F(TopTest, WhetherThereAreStepsTurnsOutAfterwards) {
  State state = NewState("/run", false, false);
  auto asks = FirstAsks(state);
  ASSERT_EQ(asks.size(), 1u);
  EXPECT_EQ(asks[0].kind, AskKind::kFirst);
  EXPECT_EQ(asks[0].path, "/run");
  // An answer for another path, which is no longer wanted, is ignored.
  EXPECT_TRUE(OnAnswer(state, RootAnswer{"/other"}).empty());
  EXPECT_FALSE(state.is_root);
  asks = OnAnswer(state, RootAnswer{"/run"});
  ASSERT_EQ(asks.size(), 1u);
  EXPECT_EQ(asks[0].kind, AskKind::kList);
  EXPECT_TRUE(state.is_root);
  EXPECT_EQ(state.pane, Pane::kSteps);
  asks = OnAnswer(state, StepsAnswer{{}, {Step(1), Step(2)}, {}});
  ASSERT_EQ(asks.size(), 1u);
  EXPECT_EQ(asks[0].kind, AskKind::kOpen);
  EXPECT_EQ(asks[0].path, "/run/2");
}

TEST_F(TopTest, WalksThroughStepsAndTree) {
  State state = Root();
  Give(state);
  auto asks = Press(state, kKeyUp);
  ASSERT_EQ(asks.size(), 1u);
  EXPECT_EQ(asks[0].path, "/run/2");
  // An answer that is no longer wanted changes nothing.
  auto late = MakeOpened(*Open("/run/3", {}));
  OnAnswer(state, OpenedAnswer{"/run/3", Status(), late});
  EXPECT_NE(state.opened, late);
  Give(state);
  Press(state, kKeyTab);
  EXPECT_EQ(state.rows.size(), 2u);  // params, note
  Press(state, kKeyRight);
  EXPECT_EQ(state.rows.size(), 4u);
  Press(state, 'j');
  Press(state, kKeyEnter);
  EXPECT_EQ(state.rows.size(), 5u);
  EXPECT_THAT(Text(state), AllOf(HasSubstr("▾ params"), HasSubstr("  ▾ a"),
                                 HasSubstr("    w"), HasSubstr("▸ b")));
  // An open node stays open in another step, and the cursor stays in place.
  Press(state, kKeyTab);
  Press(state, kKeyDown);
  Give(state);
  EXPECT_EQ(state.rows.size(), 5u);
  EXPECT_EQ(state.cursor, 1u);
  Press(state, kKeyTab);
  Press(state, kKeyLeft);
  EXPECT_EQ(state.rows.size(), 4u);
  Press(state, kKeyLeft);
  EXPECT_EQ(state.cursor, 0u);
  Press(state, 'q');
  EXPECT_TRUE(state.is_over);
}

TEST_F(TopTest, AddsUpWhatComesIn) {
  State state = Root();
  Give(state);
  TensorNumbers numbers;
  numbers.leaf = 0;
  numbers.l2_norm = 3;
  OnAnswer(state, NumbersAnswer{state.wanted, {numbers}});
  EXPECT_THAT(Text(state), HasSubstr("…"));  // the part of params so far
  numbers.leaf = 1;
  numbers.l2_norm = 4;
  numbers.nan_count = 1;
  // A repeated batch is measured again; nothing is counted twice.
  OnAnswer(state, NumbersAnswer{state.wanted, {numbers}});
  OnAnswer(state, NumbersAnswer{state.wanted, {numbers}});
  numbers.leaf = 2;
  numbers.l2_norm = 12;
  numbers.nan_count = 0;
  OnAnswer(state, NumbersAnswer{state.wanted, {numbers}});
  OnAnswer(
      state,
      DriftAnswer{state.wanted, "/run/2", {{0, 3, 3}, {1, 0, 4}, {2, 4, 12}}});
  const std::string text = Text(state);
  EXPECT_THAT(text, HasSubstr("!▸ params"));
  EXPECT_THAT(text, HasSubstr(" 13     38% "));  // 5 / 13
}

TEST_F(TopTest, SearchesWhileOneTypes) {
  State state = Root();
  Give(state);
  for (const Key key : {'/', 'B', '.', 'w'}) Press(state, key);
  EXPECT_EQ(state.opened->tree.NameOf(state.rows[state.cursor].node),
            "params.b.w");
  EXPECT_THAT(Text(state), HasSubstr("/B.w_"));
  Press(state, kKeyBackspace);
  Press(state, kKeyEnter);
  Press(state, 'n');
  EXPECT_EQ(state.opened->tree.NameOf(state.rows[state.cursor].node),
            "params.b.x");
  Press(state, 'n');  // wraps around at the end
  EXPECT_EQ(state.opened->tree.NameOf(state.rows[state.cursor].node),
            "params.b.w");
  for (const Key key : {'/', 'z'}) Press(state, key);
  Press(state, kKeyEnter);
  EXPECT_THAT(Text(state), HasSubstr("no tensor matches z"));
  // A search accepts characters of any UTF-8 length, and ignores other keys.
  for (const Key key : {Key{'/'}, Key{0xe9}, Key{0x540d}, kKeyUp}) {
    Press(state, key);
  }
  EXPECT_EQ(state.search, "é名");
  Press(state, kKeyBackspace);
  EXPECT_EQ(state.search, "é");
}

TEST_F(TopTest, AsksForValuesDifferencesAndVerification) {
  State state = NewState("/one", false, false);
  EXPECT_EQ(FirstAsks(state)[0].path, "/one");
  EXPECT_TRUE(Press(state, 'd').empty());
  EXPECT_THAT(Text(state), HasSubstr("no step before this one"));
  Give(state);
  for (const Key key : {'/', 'a'}) Press(state, key);
  Press(state, kKeyEnter);
  const auto asks = Press(state, kKeyEnter);
  ASSERT_EQ(asks.size(), 1u);
  EXPECT_EQ(asks[0].kind, AskKind::kValues);
  EXPECT_EQ(asks[0].leaf, 0u);
  TensorNumbers numbers;
  numbers.min = -1;
  numbers.bins = {1, 0, 5, 100};
  numbers.first_bin = -1;
  OnAnswer(state, NumbersAnswer{"/one", {numbers}});
  OnAnswer(state, ValuesAnswer{"/one", 0, "[1. 2.\n 3.]\n"});
  EXPECT_THAT(Text(state),
              AllOf(HasSubstr("params.a.w"), HasSubstr("min -1"),
                    HasSubstr("█"), HasSubstr("from -2^-40 to 2^-39"),
                    HasSubstr("[1. 2."), HasSubstr(" 3.]")));
  Press(state, kKeyEscape);
  EXPECT_EQ(state.page, Page::kTree);
  EXPECT_EQ(Press(state, 'v')[0].kind, AskKind::kVerify);
  OnAnswer(state, TextAnswer{.title = "1 damage found",
                             .lines = {"params.b.w: bad"},
                             .is_bad = true,
                             .damaged_leaves = {1},
                             .path = "/one"});
  EXPECT_THAT(Text(state), HasSubstr("params.b.w: bad"));
  Press(state, kKeyEscape);
  EXPECT_THAT(Text(state), HasSubstr("!▾ params"));

  state = Root();
  Give(state);
  EXPECT_EQ(Press(state, 'd')[0].other, "/run/2");
  Press(state, 'g');
  Press(state, 'm');
  Press(state, 'G');
  EXPECT_EQ(Press(state, 'd')[0].other, "/run/1");
  EXPECT_EQ(Press(state, kKeyEscape)[0].kind, AskKind::kCancel);
}

TEST_F(TopTest, FollowsTheNewestStepAndShowsSavesUnderWay) {
  State state = NewState("/run", true, true);
  OnAnswer(state, StepsAnswer{{}, {Step(1)}, {}});
  LiveSave save;
  save.path = save.directory = "/run/2";
  LiveRank rank;
  rank.host = "node\x1b[7m";
  rank.phase = "write";
  rank.done_bytes = 45;
  rank.total_bytes = 100;
  rank.lag = "slow";
  save.ranks = {rank};
  auto asks =
      OnAnswer(state, StepsAnswer{{}, {Step(1), Step(2, false)}, {save}});
  EXPECT_TRUE(asks.empty());
  save.ranks[0].total_bytes = 0;
  Press(state, kKeyDown);
  EXPECT_THAT(Text(state), AllOf(HasSubstr("45%"), HasSubstr("node\\x1b[7m"),
                                 HasSubstr("lags: slow")));
  Press(state, kKeyUp);
  asks = OnAnswer(state, StepsAnswer{{}, {Step(1), Step(2)}, {}});
  ASSERT_EQ(asks.size(), 1u);
  EXPECT_EQ(asks[0].path, "/run/2");
  // A user who has moved to another step stays there.
  Press(state, kKeyUp);
  OnAnswer(state, StepsAnswer{{}, {Step(1), Step(2), Step(3)}, {}});
  EXPECT_EQ(state.wanted, "/run/1");
}

TEST_F(TopTest, FitsAnyTerminalExactly) {
  State state = Root();
  state.steps[0].name = "名前名前名前名前名前名前";
  state.steps[1].metrics = "{\"\\u0007loss\": NaN";
  Give(state);
  for (const Key key : {'/', 'w'}) Press(state, key);
  Press(state, kKeyEnter);
  for (const bool utf8 : {true, false}) {
    for (const Page page : {Page::kTree, Page::kTensor, Page::kHelp}) {
      for (size_t rows = 1; rows < 40; rows += 3) {
        for (size_t columns = 1; columns < 220; columns += 7) {
          state.page = page;
          state.pane = columns % 2 == 0 ? Pane::kSteps : Pane::kTree;
          const Screen screen =
              Lay(state, {{rows, columns}, utf8, 10'000'000'000});
          ASSERT_EQ(screen.size(), rows);
          for (const Line& line : screen) {
            ASSERT_EQ(CellCount(TextOf(line)), columns) << TextOf(line);
            if (utf8) continue;
            for (const char c : TextOf(line)) ASSERT_TRUE(c >= 32 && c < 127);
          }
        }
      }
    }
  }
}

TEST_F(TopTest, TextsAreNoCommandsForATerminal) {
  EXPECT_EQ(SafeText("a\x1b[31m\n\xff", true), "a\\x1b[31m\\n\\xff");
  EXPECT_EQ(SafeText("\u202e\u200bx\u0301", true),
            "\\u{202e}\\u{200b}x\\u{301}");
  EXPECT_EQ(SafeText("\u0085", true).find('\x85'), std::string::npos);
  EXPECT_EQ(SafeText("名", true), "名");
  EXPECT_EQ(SafeText("名", false), "\\u{540d}");
  EXPECT_EQ(CellCount("名a"), 3u);
  EXPECT_EQ(Fitted("名名名", 4, true), "…名 ");
  EXPECT_EQ(Fitted("abcdef", 4, false), "a~ef");
  EXPECT_EQ(Fitted("ab", 4, true, cli::Align::kRight), "  ab");
  EXPECT_EQ(Beginning("名名名", 5), "名名 ");
}

// Returns the test's keys one after the other, and keeps the last screen.
class ScriptedTerminal : public cli::top::Terminal {
 public:
  ScriptedTerminal(std::vector<Event> events, std::string* last)
      : events_(std::move(events)), last_(last) {}
  Size size() const override { return {}; }
  void Draw(const Screen& screen) override { *last_ = TextOf(screen); }
  Event Wait(double) override {
    if (next_ == events_.size()) return {.keys = {'q'}};
    return events_[next_++];
  }
  void Wake() override {}

 private:
  std::vector<Event> events_;
  size_t next_ = 0;
  std::string* last_;
};

TEST_F(TopTest, RunsUntilSomebodyQuitsOrASignalComes) {
  std::string screen;
  std::vector<Event> events;
  const auto adjust = [&](cli::Env& env) {
    env.open_terminal =
        [&](bool) -> Result<std::unique_ptr<cli::top::Terminal>> {
      return std::unique_ptr<cli::top::Terminal>(
          std::make_unique<ScriptedTerminal>(events, &screen));
    };
  };
  EXPECT_EQ(RunWords({"top", "/one"}, adjust).code, 0);
  EXPECT_THAT(screen, HasSubstr("holdfast top /one"));
  events = {{.keys = {'?'}}, {.signal = 15}};
  EXPECT_EQ(RunWords({"top", "/run"}, adjust).code, 128 + 15);
  Ran ran = RunWords({"top", "/one"});
  EXPECT_EQ(ran.code, cli::kExitFailure);
  EXPECT_THAT(ran.err, HasSubstr("no terminal"));
  ran = RunWords({"top", "--watch", "/one"}, adjust);
  EXPECT_EQ(ran.code, cli::kExitUsage);
  EXPECT_THAT(ran.err, HasSubstr("not a directory of steps"));
}

}  // namespace
}  // namespace holdfast::testing
