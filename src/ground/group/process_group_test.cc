#include "holdfast/process_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "ground/base/status_macros.h"
#include "ground/group/frame.h"
#include "ground/group/rank_list.h"
#include "ground/record/call_record.h"
#include "ground/record/watchdog.h"

namespace holdfast {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kPatience = 60;  // for tests in which all ranks arrive

// Runs `body` on a thread for each rank.
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
    // A failure does not end the group: the next meeting takes place.
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
      "DEADLINE_EXCEEDED: commit: /ckpt/7: ranks 2, 4 of 5 did not arrive "
      "within 0.2 s";
  std::atomic<int> told = 0;
  OnRanks(transports, 0.2,
          [&](ProcessGroup& group) {
            const Status status = group.Agree({"commit", "/ckpt/7"}, Status());
            EXPECT_EQ(status.ToString(), expected);
            ++told;
          },
          {2, 4});
  EXPECT_EQ(told, 3);
  // A late rank finds the verdict, and does not wait.
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

// While it exists, collects the lines that would go to standard error.
class SaidLines {
 public:
  SaidLines() {
    SetSayLateForTest([this](const std::string& line) {
      {
        const std::lock_guard lock(mutex_);
        lines_.push_back(line);
      }
      changed_.notify_all();
    });
  }
  ~SaidLines() { SetSayLateForTest(nullptr); }
  SaidLines(const SaidLines&) = delete;
  SaidLines& operator=(const SaidLines&) = delete;

  // Returns the first line, or "" if none arrives within five seconds.
  std::string First() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(5),
                      [&] { return !lines_.empty(); });
    return lines_.empty() ? "" : lines_[0];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

// Lets one rank arrive only after it was reported as late.
void MeetWithOneLate(int64_t late_rank, SaidLines& said, std::string& first) {
  OnRanks(MakeThreadTransports(4), kPatience, [&](ProcessGroup& group) {
    if (group.rank() == late_rank) first = said.First();
    EXPECT_TRUE(group.Agree({"write", "/ckpt/7"}, Status()).ok());
  });
}

TEST(ProcessGroup, SaysWhichRankIsLate) {
  SaidLines said;
  std::string first;
  MeetWithOneLate(2, said, first);
  EXPECT_EQ(first,
            "holdfast: write: /ckpt/7: waited 3 s of 60 s for rank 2: not "
            "heard from\n");
}

TEST(ProcessGroup, SaysThatRankZeroIsLate) {
  SaidLines said;
  std::string first;
  MeetWithOneLate(0, said, first);
  EXPECT_EQ(first,
            "holdfast: write: /ckpt/7: waited 3 s of 60 s for rank 0: not "
            "heard from\n");
}

TEST(ProcessGroup, SaysWhatIsKnownOfALateRank) {
  SaidLines said;
  std::string first;
  OnRanks(MakeThreadTransports(3), kPatience, [&](ProcessGroup& group) {
    CallRecord call(CallKind::kSave, "/ckpt/7");
    call.Publish({.first_seconds = 1000, .other = [](int64_t rank) {
                    return "in encode, rank " + std::to_string(rank);
                  }});
    const OnCall on(&call);
    if (group.rank() == 1) first = said.First();
    EXPECT_TRUE(group.Agree({"write", "/ckpt/7"}, Status()).ok());
    call.End(Status());
  });
  EXPECT_THAT(first, HasSubstr("for rank 1: in encode, rank 1\n"));
}

// Rank 0 itself was late and then waits for another rank. Ranks that wait for
// rank 0 must blame that other rank.
TEST(ProcessGroup, RankZeroSaysThatItHasCome) {
  const auto transports = MakeThreadTransports(3);
  constexpr double kTimeout = 0.2;
  std::thread waiting([&] {
    const auto group =
        MakeProcessGroup(transports[1], {.timeout_seconds = kTimeout});
    EXPECT_THAT(group->Agree({"commit", "/c"}, Status()).ToString(),
                HasSubstr("rank 2 of 3 did not arrive within 2 s"));
  });
  const auto group = MakeProcessGroup(transports[0], {.timeout_seconds = 2});
  EXPECT_THAT(group->Agree({"commit", "/c"}, Status()).ToString(),
              HasSubstr("rank 2 of 3 did not arrive within 2 s"));
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
    // Messages name the rank in the whole process group, as the process's log
    // does.
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

// One rank fails while the others meet for something else.
TEST(GroupCall, AFailureIsToldAtAnyMeeting) {
  OnRanks(MakeThreadTransports(4), kPatience, [](ProcessGroup& group) {
    for (const int64_t bad : {2, 0, 3}) {
      const Status status = InGroupCall(&group, [&]() -> Status {
        EXPECT_TRUE(group.Agree({"begin", "/c"}, Status()).ok());
        if (group.rank() == bad) return NotFoundError("gone");
        return group.AllGather({"plan", "/c"}, "x").status();
      });
      const std::string named = "rank " + std::to_string(bad) + ": ";
      EXPECT_EQ(status.ToString(),
                "NOT_FOUND: " + (group.rank() == bad ? "" : named) + "gone");
      EXPECT_THAT(group.failed_ranks(), ElementsAre(bad));
      // The call is over; the next call is independent of it.
      EXPECT_TRUE(group.Agree({"begin", "/c"}, Status()).ok());
      EXPECT_THAT(group.failed_ranks(), ElementsAre());
    }
  });
}

TEST(GroupCall, NothingIsSentOnceItHasFailed) {
  OnRanks(MakeThreadTransports(3), kPatience, [](ProcessGroup& group) {
    GroupCall call(&group);
    const Status mine = group.rank() == 1 ? DataLossError("torn") : Status();
    const std::string failure = "DATA_LOSS: rank 1: torn";
    EXPECT_EQ(group.Agree({"a", ""}, mine).ToString(), failure);
    // Some ranks ask for nothing more, others do.
    if (group.rank() < 2) {
      EXPECT_EQ(group.AllGather({"b", ""}, "").status().ToString(), failure);
      GroupCall nested(&group);
      EXPECT_EQ(group.Agree({"c", ""}, Status()).ToString(), failure);
    }
    call.End(mine);
    EXPECT_EQ(group.call_number(), 1u);
    EXPECT_TRUE(group.Agree({"a", ""}, Status()).ok());
  });
}

TEST(GroupCall, OneThatIsDroppedIsAFailure) {
  OnRanks(MakeThreadTransports(3), kPatience, [](ProcessGroup& group) {
    {
      GroupCall call(&group);
      if (group.rank() != 2) {
        EXPECT_EQ(group.Agree({"a", ""}, Status()).ToString(),
                  "CANCELLED: rank 2: left the call unfinished");
      }
    }
    EXPECT_TRUE(group.Agree({"a", ""}, Status()).ok());
  });
}

// The others have given up on a call of two meetings before rank 0 takes part.
// Rank 0 learns that at the second meeting and does not delay their next call.
TEST(GroupCall, WhoGivesUpOnRankZeroLeavesWord) {
  const auto transports = MakeThreadTransports(3);
  const auto two = [](ProcessGroup& group, const std::string& file) {
    return InGroupCall(&group, [&]() -> Status {
      HF_RETURN_IF_ERROR(group.Agree({"begin", file}, Status()));
      return group.Agree({"end", file}, Status());
    });
  };
  std::vector<std::unique_ptr<ProcessGroup>> groups;
  for (const auto& transport : transports) {
    groups.push_back(MakeProcessGroup(
        transport, {.timeout_seconds = transport->rank() == 0 ? 1e6 : 0}));
  }
  for (const int rank : {1, 2}) {
    EXPECT_EQ(two(*groups[rank], "/a").code(), StatusCode::kDeadlineExceeded);
  }
  EXPECT_THAT(two(*groups[0], "/a").ToString(),
              HasSubstr("ranks 1, 2: begin: /a: rank 0 of 3 did not answer"));
  EXPECT_EQ(groups[0]->call_number(), groups[1]->call_number());
}

// A rank that leaves a call out finds the others in their next call.
TEST(GroupCall, FollowsTheOthers) {
  for (const int64_t idle : {0, 1, 2}) {
    const auto transports = MakeThreadTransports(3);
    for (const auto& transport : transports) {
      if (transport->rank() == idle) continue;
      // Does not wait for the absent rank.
      auto group = MakeProcessGroup(transport, {.timeout_seconds = 0});
      EXPECT_EQ(group->Agree({"begin", "/a"}, Status()).code(),
                StatusCode::kDeadlineExceeded);
    }
    OnRanks(transports, kPatience, [&](ProcessGroup& group) {
      if (group.rank() != idle) GroupCall(&group).End(Status());  // the first
      EXPECT_TRUE(group.Agree({"begin", "/b"}, Status()).ok());
      EXPECT_EQ(group.call_number(), 2u);
    });
  }
}

// Property: whatever fails, and wherever, every later call without failures
// succeeds.
TEST(GroupCall, RandomFailuresCostNoLaterCall) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const int64_t size = 2 + static_cast<int64_t>(random() % 7);
    OnRanks(MakeThreadTransports(size), kPatience, [&](ProcessGroup& group) {
      std::mt19937 plan(seed);  // the same on all ranks
      for (int round = 0; round < 25; ++round) {
        const int meeting_count = 1 + static_cast<int>(plan() % 5);
        // The meeting before or during which each rank fails, if any.
        std::vector<int> fails_at;
        int first = meeting_count;
        for (int64_t rank = 0; rank < size; ++rank) {
          const bool fails = plan() % 4 == 0;
          fails_at.push_back(fails ? static_cast<int>(plan() % meeting_count)
                                   : meeting_count);
          first = std::min(first, fails_at.back());
        }
        const bool tells_itself = plan() % 2 == 0;
        const int64_t rank = group.rank();
        const std::string file = "/" + std::to_string(round);
        const Status status = InGroupCall(&group, [&]() -> Status {
          for (int i = 0; i < meeting_count; ++i) {
            const std::string phase = "phase " + std::to_string(i);
            const Status mine =
                fails_at[rank] == i
                    ? DataLossError("torn at " + std::to_string(i))
                    : Status();
            if (!mine.ok() && !tells_itself) return mine;
            if (!mine.ok() || i % 2 == 0) {
              HF_RETURN_IF_ERROR(group.Agree({phase, file}, mine));
              continue;
            }
            HF_ASSIGN_OR_RETURN(
                const auto all,
                group.AllGather({phase, file}, std::to_string(rank)));
            for (int64_t i = 0; i < size; ++i) {
              EXPECT_EQ(all[i], std::to_string(i));
            }
          }
          return Status();
        });
        EXPECT_EQ(status.ok(), first == meeting_count) << status.ToString();
        EXPECT_EQ(group.call_number(), static_cast<uint64_t>(round) + 1);
        if (first == meeting_count) continue;
        EXPECT_EQ(status.code(), StatusCode::kDataLoss);
        // All ranks that failed at the first bad meeting are named.
        if (!tells_itself && fails_at[rank] == first) continue;
        std::vector<int64_t> failed;
        for (int64_t i = 0; i < size; ++i) {
          if (fails_at[i] == first) failed.push_back(i);
        }
        EXPECT_EQ(group.failed_ranks(), failed);
        EXPECT_EQ(std::string(status.message()),
                  RankList(failed) + ": torn at " + std::to_string(first));
      }
    });
  }
}

// Fails to send messages to the last rank.
class LosingTransport : public ProcessTransport {
 public:
  explicit LosingTransport(std::shared_ptr<ProcessTransport> transport)
      : transport_(std::move(transport)) {}
  int64_t rank() const override { return transport_->rank(); }
  int64_t size() const override { return transport_->size(); }
  Status Send(int64_t to, std::string_view topic,
              std::string_view message) override {
    if (to == size() - 1) return UnavailableError("gone");
    return transport_->Send(to, topic, message);
  }
  Result<std::string> Receive(int64_t from, std::string_view topic,
                              double timeout_seconds) override {
    return transport_->Receive(from, topic, timeout_seconds);
  }
  std::string HostOf(int64_t rank) const override {
    return "node-" + std::to_string(rank);
  }

 private:
  const std::shared_ptr<ProcessTransport> transport_;
};

// The two ranks that can be reached have the same outcome. The third is missing
// from the next meeting.
TEST(ProcessGroup, ARankThatCannotBeToldFailsNobodyElse) {
  auto transports = MakeThreadTransports(3);
  transports[0] = std::make_shared<LosingTransport>(transports[0]);
  std::vector<std::thread> threads;
  for (const auto& transport : transports) {
    threads.emplace_back([transport] {
      const auto group = MakeProcessGroup(transport, {.timeout_seconds = 0.3});
      const Status first = group->Agree({"write", "/c"}, Status());
      EXPECT_EQ(first.ok(), transport->rank() != 2) << first.ToString();
      if (transport->rank() == 2) return;
      EXPECT_THAT(group->Agree({"merge", "/c"}, Status()).ToString(),
                  HasSubstr("rank 2 (node-2) of 3 did not arrive"));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Acts as rank `size` - 1 of a group whose other messages are scripted by a
// test.
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
        0, std::map<std::string, std::string>{{"holdfast/0/0/arrival", bytes}});
    const auto group = MakeProcessGroup(transport, {.timeout_seconds = 0.2});
    const Status status = group->Agree({"write", "/c"}, Status());
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.ToString(), HasSubstr("write: /c: rank 1"));
    // The other rank is informed.
    const auto frame = DecodeFrame(transport->sent_.at("holdfast/0/0/answer"));
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
            std::map<std::string, std::string>{{"holdfast/0/0/answer", bytes}}),
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

TEST(ProcessGroup, MembersMeetWithoutTheOthers) {
  const auto transports = MakeThreadTransports(5);
  const std::vector<int64_t> members = {1, 4};
  std::vector<std::thread> threads;
  for (const int64_t rank : members) {
    threads.emplace_back([&, rank] {
      const auto group = MakeProcessGroup(
          transports[rank], {.timeout_seconds = kPatience, .members = members});
      EXPECT_EQ(group->size(), 2);
      const auto all = group->AllGather({"plan", ""}, std::to_string(rank));
      ASSERT_TRUE(all.ok()) << all.status().ToString();
      EXPECT_THAT(*all, ElementsAre("1", "4"));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ProcessGroup, AMeetingHasADeadlineOfItsOwn) {
  const auto transports = MakeThreadTransports(5);
  const auto group = MakeProcessGroup(
      transports[1], {.timeout_seconds = kPatience, .members = {1, 4}});
  EXPECT_EQ(group->AllGather({"plan", "/c", 0.01}, "").status().ToString(),
            "DEADLINE_EXCEEDED: plan: /c: rank 4 of 2 did not arrive within "
            "0.01 s");
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
    ASSERT_EQ(transport->sent_.size(), 4u);  // and a leave message for each
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
