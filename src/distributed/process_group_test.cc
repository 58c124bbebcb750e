#include "holdfast/process_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "distributed/frame.h"

namespace holdfast {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kPatience = 60;  // of tests in which all come

// `body` on a thread for each rank.
void OnRanks(const std::vector<std::shared_ptr<ProcessTransport>>& transports,
             double timeout_seconds,
             const std::function<void(ProcessGroup&)>& body,
             const std::vector<int64_t>& absent = {}) {
  std::vector<std::thread> threads;
  for (const auto& transport : transports) {
    if (std::count(absent.begin(), absent.end(), transport->rank()) > 0) {
      continue;
    }
    threads.emplace_back([&, transport] {
      const auto group =
          MakeProcessGroup(transport, {.timeout_seconds = timeout_seconds});
      body(*group);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ProcessGroup, GathersByRank) {
  OnRanks(MakeThreadTransports(5), kPatience, [](ProcessGroup& group) {
    for (int round = 0; round < 20; ++round) {
      const auto all =
          group.AllGather({"plan", "/ckpt"}, std::to_string(round) + "." +
                                                 std::to_string(group.rank()));
      ASSERT_TRUE(all.ok()) << all.status().ToString();
      for (int64_t rank = 0; rank < 5; ++rank) {
        EXPECT_EQ((*all)[rank],
                  std::to_string(round) + "." + std::to_string(rank));
      }
    }
  });
}

TEST(ProcessGroup, BroadcastsFromAnyRank) {
  OnRanks(MakeThreadTransports(3), kPatience, [](ProcessGroup& group) {
    for (int64_t root = 0; root < 3; ++root) {
      const auto value =
          group.Broadcast({"plan", ""}, root, std::to_string(group.rank()));
      ASSERT_TRUE(value.ok()) << value.status().ToString();
      EXPECT_EQ(*value, std::to_string(root));
    }
    EXPECT_EQ(group.Broadcast({"plan", ""}, 3, "").status().code(),
              StatusCode::kInvalidArgument);
  });
}

TEST(ProcessGroup, AgreesWithTheLowestRankThatFailed) {
  OnRanks(MakeThreadTransports(5), kPatience, [](ProcessGroup& group) {
    EXPECT_TRUE(group.Agree({"write", "/ckpt"}, Status()).ok());
    Status mine;
    if (group.rank() == 4) mine = DataLossError("torn");
    if (group.rank() == 1) mine = ResourceExhaustedError("disk full");
    if (group.rank() == 2) mine = ResourceExhaustedError("disk full");
    EXPECT_EQ(group.Agree({"write", "/ckpt"}, mine).ToString(),
              "RESOURCE_EXHAUSTED: ranks 1, 2: disk full; rank 4: torn");
    // A failure ends nothing: the next meeting is held.
    EXPECT_TRUE(group.Agree({"write", "/ckpt"}, Status()).ok());
  });
}

TEST(ProcessGroup, NamesWhoIsInAnotherPhase) {
  std::mutex mutex;
  std::vector<std::string> texts;
  OnRanks(MakeThreadTransports(4), kPatience, [&](ProcessGroup& group) {
    const Meeting meeting = group.rank() == 2   ? Meeting{"begin", "/ckpt/8"}
                            : group.rank() == 3 ? Meeting{"write", "/ckpt/7"}
                                                : Meeting{"commit", "/ckpt/7"};
    const Status status = group.Agree(meeting, Status());
    const std::lock_guard lock(mutex);
    texts.push_back(status.ToString());
  });
  ASSERT_EQ(texts.size(), 4u);
  for (const std::string& text : texts) {
    EXPECT_EQ(text,
              "FAILED_PRECONDITION: commit: /ckpt/7: the ranks are in "
              "different phases: ranks 0, 1 at commit; rank 2 at begin of "
              "/ckpt/8; rank 3 at write");
  }
}

TEST(ProcessGroup, NamesTheRanksThatDoNotCome) {
  const auto transports = MakeThreadTransports(5);
  const std::string expected =
      "DEADLINE_EXCEEDED: commit: /ckpt/7: ranks 2, 4 of 5 did not come within "
      "0.2 s";
  std::atomic<int> told = 0;
  OnRanks(transports, 0.2,
          [&](ProcessGroup& group) {
            const Status status = group.Agree({"commit", "/ckpt/7"}, Status());
            EXPECT_EQ(status.ToString(), expected);
            ++told;
          },
          {2, 4});
  EXPECT_EQ(told, 3);
  // Who comes late finds the verdict, and waits for nobody.
  const auto late = MakeProcessGroup(transports[4], {.timeout_seconds = 1e9});
  EXPECT_EQ(late->Agree({"commit", "/ckpt/7"}, Status()).ToString(), expected);
}

TEST(ProcessGroup, NamesRankZeroWhenItIsSilent) {
  const auto transports = MakeThreadTransports(3);
  OnRanks(transports, 0.1,
          [](ProcessGroup& group) {
            const Status status =
                group.AllGather({"plan", "/ckpt/7"}, "x").status();
            EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
            EXPECT_THAT(std::string(status.message()),
                        AllOf(HasSubstr("plan: /ckpt/7: rank 0 of 3"),
                              HasSubstr("did not answer within 0.6 s")));
          },
          {0});
}

// Rank 0 was late itself and then waits for another: those that wait for it
// must blame the other.
TEST(ProcessGroup, RankZeroSaysThatItHasCome) {
  const auto transports = MakeThreadTransports(3);
  constexpr double kTimeout = 0.2;
  std::thread waiting([&] {
    const auto group =
        MakeProcessGroup(transports[1], {.timeout_seconds = kTimeout});
    EXPECT_THAT(group->Agree({"commit", "/c"}, Status()).ToString(),
                HasSubstr("rank 2 of 3 did not come within 2 s"));
  });
  const auto group = MakeProcessGroup(transports[0], {.timeout_seconds = 2});
  EXPECT_THAT(group->Agree({"commit", "/c"}, Status()).ToString(),
              HasSubstr("rank 2 of 3 did not come within 2 s"));
  waiting.join();
}

TEST(ProcessGroup, SubgroupsMeetAlone) {
  OnRanks(MakeThreadTransports(6), kPatience, [](ProcessGroup& group) {
    const bool is_odd = group.rank() % 2 == 1;
    const auto half = is_odd ? group.Subgroup({1, 3, 5}, "replica")
                             : group.Subgroup({0, 2, 4}, "replica");
    EXPECT_EQ(half->size(), 3);
    EXPECT_EQ(half->rank(), group.rank() / 2);
    const auto all =
        half->AllGather({"plan", ""}, std::to_string(group.rank()));
    ASSERT_TRUE(all.ok()) << all.status().ToString();
    EXPECT_THAT(
        *all, is_odd ? ElementsAre("1", "3", "5") : ElementsAre("0", "2", "4"));
    // By the rank of the process, as its log has it.
    const Status mine = group.rank() == 3 ? NotFoundError("gone") : Status();
    EXPECT_EQ(half->Agree({"plan", ""}, mine).ToString(),
              is_odd ? "NOT_FOUND: rank 3: gone" : "OK");
    EXPECT_TRUE(group.Agree({"commit", ""}, Status()).ok());
    if (half->rank() > 1) return;
    const auto pair = half->Subgroup({0, 1}, "pair");
    const auto value = pair->Broadcast(
        {"plan", ""}, 1, group.rank() > 1 ? "from high" : "from low");
    ASSERT_TRUE(value.ok());
    EXPECT_EQ(*value, "from high");
  });
}

TEST(ProcessGroup, OneProcessWaitsForNobody) {
  const auto group = SingleProcessGroup();
  EXPECT_EQ(group->size(), 1);
  EXPECT_EQ(group->rank(), 0);
  EXPECT_THAT(*group->AllGather({"plan", ""}, "x"), ElementsAre("x"));
  EXPECT_EQ(*group->Broadcast({"plan", ""}, 0, "y"), "y");
  EXPECT_EQ(group->Agree({"plan", ""}, DataLossError("torn")).ToString(),
            "DATA_LOSS: torn");
}

// Gives rank `size` - 1 of a group whose others are written out in a test.
class ScriptedTransport : public ProcessTransport {
 public:
  ScriptedTransport(int64_t rank, std::map<std::string, std::string> incoming)
      : rank_(rank), incoming_(std::move(incoming)) {}
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return 2; }
  Status Send(int64_t, std::string_view topic,
              std::string_view message) override {
    EXPECT_LE(topic.size(), 200u);
    EXPECT_TRUE(sent_.emplace(topic, message).second) << topic;
    return send_status_;
  }
  Result<std::string> Receive(int64_t, std::string_view topic,
                              double) override {
    if (!receive_status_.ok()) return receive_status_;
    const auto found = incoming_.find(std::string(topic));
    if (found == incoming_.end()) return DeadlineExceededError("nothing");
    return found->second;
  }

  std::map<std::string, std::string> sent_;
  Status send_status_;
  Status receive_status_;

 private:
  int64_t rank_;
  std::map<std::string, std::string> incoming_;
};

TEST(ProcessGroup, RankZeroRefusesForeignMessages) {
  for (const std::string& bytes :
       {std::string(), std::string("\xff\xff\xff"),
        EncodeFrame(AnswerFrame{{"x"}}), EncodeFrame(WaitingFrame{})}) {
    const auto transport = std::make_shared<ScriptedTransport>(
        0, std::map<std::string, std::string>{{"holdfast/0/arrival", bytes}});
    const auto group = MakeProcessGroup(transport, {.timeout_seconds = 0.2});
    const Status status = group->Agree({"write", "/c"}, Status());
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.ToString(), HasSubstr("write: /c: rank 1"));
    // The other rank hears of it.
    const auto frame = DecodeFrame(transport->sent_.at("holdfast/0/answer"));
    ASSERT_TRUE(frame.ok());
    EXPECT_EQ(std::get<FailureFrame>(*frame).status.ToString(),
              status.ToString());
  }
}

TEST(ProcessGroup, OthersRefuseForeignAnswers) {
  for (const std::string& bytes :
       {std::string("?"), EncodeFrame(AnswerFrame{{"one of two"}}),
        EncodeFrame(ArrivalFrame{"write", "/c", ""})}) {
    const auto group = MakeProcessGroup(
        std::make_shared<ScriptedTransport>(
            1,
            std::map<std::string, std::string>{{"holdfast/0/answer", bytes}}),
        {.timeout_seconds = 0.2});
    const Status status = group->AllGather({"write", "/c"}, "v").status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.ToString(), HasSubstr("write: /c: rank 0"));
  }
}

TEST(ProcessGroup, PassesOnWhatTheTransportSays) {
  const auto transport = std::make_shared<ScriptedTransport>(
      0, std::map<std::string, std::string>());
  transport->receive_status_ = UnavailableError("link down");
  const auto group = MakeProcessGroup(transport, {.timeout_seconds = 1});
  EXPECT_EQ(group->Agree({"write", "/c"}, Status()).ToString(),
            "UNAVAILABLE: write: /c: rank 1: link down");
}

TEST(ProcessGroup, AnyNameMakesATopic) {
  for (const std::string& name :
       {std::string(1000, 'n'), std::string("a\0b", 3), std::string("\xff")}) {
    const auto transport = std::make_shared<ScriptedTransport>(
        1, std::map<std::string, std::string>());
    const auto group =
        MakeProcessGroup(transport, {.timeout_seconds = 0, .name = name});
    EXPECT_FALSE(group->Agree({"write", ""}, Status()).ok());
    EXPECT_FALSE(
        group->Subgroup({0, 1}, name)->Agree({"write", ""}, Status()).ok());
    ASSERT_EQ(transport->sent_.size(), 2u);
    for (const auto& [topic, message] : transport->sent_) {
      for (const char c : topic) EXPECT_TRUE(c > ' ' && c < '\x7f') << topic;
    }
  }
}

TEST(ThreadTransport, HasNoMessageBeforeItIsSent) {
  const auto transports = MakeThreadTransports(2);
  EXPECT_EQ(transports[0]->Receive(1, "t", 0).status().code(),
            StatusCode::kDeadlineExceeded);
  ASSERT_TRUE(transports[1]->Send(0, "t", "one").ok());
  EXPECT_EQ(transports[0]->Receive(1, "u", 0).status().code(),
            StatusCode::kDeadlineExceeded);
  EXPECT_EQ(*transports[0]->Receive(1, "t", 0), "one");
}

}  // namespace
}  // namespace holdfast
