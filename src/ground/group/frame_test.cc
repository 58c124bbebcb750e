#include "ground/group/frame.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace holdfast {
namespace {

std::vector<std::string> SomeFrames() {
  return {
      EncodeFrame(ArrivalFrame{"commit", "/ckpt/7", std::string("a\0b", 3)}),
      EncodeFrame(ArrivalFrame{"", "/ckpt/7", "",
                               ResourceExhaustedError("full"), true}),
      EncodeFrame(WaitingFrame{1500}),
      EncodeFrame(AnswerFrame{{"one", "", std::string(300, 'x')}}),
      EncodeFrame(FailureFrame{DeadlineExceededError("rank 3 did not arrive"),
                               {2, 300},
                               true,
                               "commit",
                               "/ckpt/7"}),
  };
}

TEST(Frame, ComesBack) {
  const std::vector<std::string> frames = SomeFrames();
  const auto arrival = std::get<ArrivalFrame>(*DecodeFrame(frames[0]));
  EXPECT_EQ(arrival.phase, "commit");
  EXPECT_EQ(arrival.file, "/ckpt/7");
  EXPECT_EQ(arrival.value, std::string("a\0b", 3));
  EXPECT_TRUE(arrival.failure.ok());
  EXPECT_FALSE(arrival.leaves);
  const auto leaving = std::get<ArrivalFrame>(*DecodeFrame(frames[1]));
  EXPECT_EQ(leaving.failure.ToString(), "RESOURCE_EXHAUSTED: full");
  EXPECT_TRUE(leaving.leaves);
  EXPECT_EQ(std::get<WaitingFrame>(*DecodeFrame(frames[2])).milliseconds,
            1500u);
  const auto answer = std::get<AnswerFrame>(*DecodeFrame(frames[3]));
  EXPECT_EQ(answer.values,
            (std::vector<std::string>{"one", "", std::string(300, 'x')}));
  const auto failure = std::get<FailureFrame>(*DecodeFrame(frames[4]));
  EXPECT_EQ(failure.status.ToString(),
            "DEADLINE_EXCEEDED: rank 3 did not arrive");
  EXPECT_EQ(failure.failed_ranks, (std::vector<int64_t>{2, 300}));
  EXPECT_TRUE(failure.was_missed);
  EXPECT_EQ(failure.phase, "commit");
  EXPECT_EQ(failure.file, "/ckpt/7");
}

TEST(Frame, RefusesEveryPrefixAndMore) {
  for (const std::string& frame : SomeFrames()) {
    for (size_t size = 0; size < frame.size(); ++size) {
      EXPECT_EQ(DecodeFrame(frame.substr(0, size)).status().code(),
                StatusCode::kDataLoss);
    }
    EXPECT_FALSE(DecodeFrame(frame + "x").ok());
  }
}

TEST(Frame, SurvivesDamage) {
  std::mt19937 random(7);
  const std::vector<std::string> frames = SomeFrames();
  int understood = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string frame = frames[random() % frames.size()];
    frame[random() % frame.size()] = static_cast<char>(random());
    const auto decoded = DecodeFrame(frame);
    if (!decoded.ok()) continue;
    ++understood;
    if (const auto* failure = std::get_if<FailureFrame>(&*decoded)) {
      EXPECT_FALSE(failure->status.ok());
    }
  }
  EXPECT_GT(understood, 0);
}

TEST(Frame, RefusesCountsLargerThanTheMessage) {
  std::string frame = EncodeFrame(AnswerFrame{});
  frame.back() = '\x7f';
  EXPECT_FALSE(DecodeFrame(frame).ok());
}

}  // namespace
}  // namespace holdfast
