// ReadTogether with a bad rank, file or message: all ranks fail, none hangs,
// and the error names the cause.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <random>

#include "checkpoint/test_trees.h"
#include "ground/base/status_macros.h"
#include "holdfast/pending_save.h"
#include "holdfast/read_together.h"
#include "twins/local_ranks.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

class TogetherFault : public testing::Test {
 protected:
  TogetherFault() {
    SaveOptions save;
    save.sync = false;
    save.use_ocdbt = false;
    save.chunk_bytes = 64 << 10;
    Tree tree = Tree::Dict();
    for (int i = 0; i < 4; ++i) {
      tree.Add("w" + std::to_string(i),
               Tree(RandomArray(DType::kFloat32, {256, 256}, i)));
    }
    const auto saved = Save(path_, tree, save);
    EXPECT_TRUE(saved.ok()) << saved.status().ToString();
  }

  static std::vector<TogetherRequest> Everything() {
    std::vector<TogetherRequest> requests;
    for (size_t leaf = 0; leaf < 4; ++leaf) {
      requests.push_back({leaf, {0, 0}, {256, 256}, {}});
    }
    return requests;
  }

  // Reads on threads; returns the statuses of all ranks as strings.
  std::vector<std::string> ReadOn(
      int64_t rank_count, double timeout_seconds,
      const std::function<Status(ProcessGroup&, const Checkpoint&)>& read,
      int64_t absent = -1) {
    std::vector<std::string> texts;
    std::mutex mutex;
    OnThreads(
        rank_count, timeout_seconds,
        [&](ProcessGroup& group) {
          const auto opened = Open(path_);
          const Status status =
              opened.ok() ? read(group, **opened) : opened.status();
          const std::lock_guard lock(mutex);
          texts.push_back(status.ToString());
        },
        absent);
    return texts;
  }

  const ScratchDirectory scratch_;
  const std::string path_ = scratch_ / "checkpoint";
};

TEST_F(TogetherFault, ACutFileFailsAllByName) {
  const std::string file = path_ + "/w2/1.0";
  ASSERT_TRUE(std::filesystem::exists(file));
  std::filesystem::resize_file(file, 1000);
  for (const uint64_t broadcast_bytes_max : {0, 1000}) {
    for (const bool is_shared : {true, false}) {
      const auto texts =
          ReadOn(4, kPatienceSeconds,
                 [&](ProcessGroup& group, const Checkpoint& checkpoint) {
                   ReadTogetherOptions options;
                   options.broadcast_bytes_max = broadcast_bytes_max;
                   if (!is_shared) {
                     options.host = std::to_string(group.rank() % 2);
                   }
                   return ReadTogether(checkpoint, Everything(), group, options)
                       .status();
                 });
      ASSERT_EQ(texts.size(), 4u);
      EXPECT_THAT(texts,
                  Each(AllOf(HasSubstr("DATA_LOSS"), HasSubstr("rank"),
                             HasSubstr("/w2/1.0"), HasSubstr("[64:128"))));
    }
  }
}

TEST_F(TogetherFault, ARankThatNeverComesIsNamed) {
  for (const int64_t absent : {0, 2}) {
    const auto texts = ReadOn(
        3, 0.3,
        [&](ProcessGroup& group, const Checkpoint& checkpoint) {
          return ReadTogether(checkpoint, Everything(), group).status();
        },
        absent);
    ASSERT_EQ(texts.size(), 2u);
    EXPECT_THAT(texts, Each(AllOf(HasSubstr("DEADLINE_EXCEEDED"),
                                  HasSubstr("rank " + std::to_string(absent)),
                                  HasSubstr(path_))));
  }
}

TEST_F(TogetherFault, ABadRequestOfOneFailsAll) {
  for (const uint64_t broadcast_bytes_max : {0, 1000}) {
    const auto texts = ReadOn(
        4, kPatienceSeconds,
        [&](ProcessGroup& group, const Checkpoint& checkpoint) {
          auto requests = Everything();
          if (group.rank() == 1) requests[3].origin = {1, 0};
          ReadTogetherOptions options;
          options.host = std::to_string(group.rank() / 2);
          options.broadcast_bytes_max = broadcast_bytes_max;
          return ReadTogether(checkpoint, requests, group, options).status();
        });
    EXPECT_THAT(texts, Each(AllOf(HasSubstr("OUT_OF_RANGE"),
                                  HasSubstr("rank 1"), HasSubstr("leaf w3"))));
  }
}

TEST_F(TogetherFault, OneCancelsForAll) {
  std::atomic<bool> cancel{true};
  const auto texts = ReadOn(
      3, kPatienceSeconds,
      [&](ProcessGroup& group, const Checkpoint& checkpoint) {
        ReadTogetherOptions options;
        if (group.rank() == 2) options.run.cancel = &cancel;
        return ReadTogether(checkpoint, Everything(), group, options).status();
      });
  EXPECT_THAT(texts, Each(AllOf(HasSubstr("CANCELLED"), HasSubstr("rank 2"))));
}

// A job whose ranks chose different steps must not mix them.
TEST_F(TogetherFault, DifferentCheckpointsAreFoundOut) {
  for (const bool use_ocdbt : {true, false}) {
    SaveOptions save;
    save.sync = false;
    save.overwrite = true;
    save.use_ocdbt = use_ocdbt;
    for (const std::string name : {"a", "b"}) {
      ASSERT_TRUE(
          Save(scratch_ / name,
               Tree::Dict({{"w", Tree(RandomArray(DType::kInt8, {999}, 1))}}),
               save)
              .ok());
    }
    const auto texts = ReadOn(
        2, kPatienceSeconds, [&](ProcessGroup& group, const Checkpoint&) {
          const auto opened = Open(scratch_ / (group.rank() == 0 ? "a" : "b"));
          return ReadTogether(**opened, {{0, {0}, {999}, {}}}, group).status();
        });
    EXPECT_THAT(texts, Each(AllOf(HasSubstr("FAILED_PRECONDITION"),
                                  HasSubstr("opened another checkpoint"))));
  }
}

// Does one rank's part of a read, of a save, or of a save with PendingSave. If
// `is_bad`, the rank fails before the first collective call or between two.
Status OneCall(uint32_t kind, const std::string& path, bool is_bad,
               ProcessGroup& group, const Checkpoint& checkpoint,
               std::vector<TogetherRequest> requests) {
  if (kind == 0) {
    if (is_bad) requests[1].leaf = 999;
    return ReadTogether(checkpoint, requests, group).status();
  }
  Tree tree = Tree::Dict();
  tree.Add("w", Tree(RandomArray(DType::kFloat32, {4, 4}, 1)));
  if (kind == 1) {
    SaveOptions save;
    save.sync = false;
    save.group = &group;
    if (is_bad) save.item_custom_metadata = "no json";
    return Save(path, tree, save).status();
  }
  PendingSaveOptions options;
  options.group = &group;
  options.sync = false;
  HF_ASSIGN_OR_RETURN(const auto pending, PendingSave::Begin(path, options));
  SaveOptions save;
  save.sync = false;
  save.group = &group;
  if (kind == 3 && is_bad) save.item_custom_metadata = "no json";
  HF_RETURN_IF_ERROR(pending->SaveItem("item", tree, save).status());
  // The rank returns early, which destroys `pending`.
  if (is_bad) return ResourceExhaustedError("disk full");
  return pending->Commit({});
}

TEST_F(TogetherFault, RandomFailuresCostNoLaterCall) {
  for (uint32_t seed = 0; seed < 3; ++seed) {
    const int64_t size = std::vector<int64_t>{2, 4, 8}[seed];
    OnThreads(size, kPatienceSeconds, [&](ProcessGroup& group) {
      const auto opened = Open(path_);
      ASSERT_TRUE(opened.ok());
      std::mt19937 plan(seed);  // the same on all ranks
      for (int round = 0; round < 24; ++round) {
        const uint32_t kind = plan() % 4;
        const uint32_t how = plan() % 4;
        const auto one = static_cast<int64_t>(plan() % size);
        const bool fails = how < 2;
        const bool is_bad = how == 0 || (how == 1 && group.rank() == one);
        const std::string path =
            scratch_ / (std::to_string(seed) + "." + std::to_string(round));
        const Status status =
            OneCall(kind, path, is_bad, group, **opened, Everything());
        EXPECT_EQ(status.ok(), !fails)
            << kind << " " << how << ": " << status.ToString();
        if (how == 1 && !is_bad) {
          EXPECT_THAT(status.ToString(),
                      HasSubstr("rank " + std::to_string(one) + ": "));
        }
        if (fails || kind == 0) continue;
        EXPECT_TRUE(Open(path).ok()) << path;
      }
    });
  }
}

// Falsifies the messages of its rank.
class Liar : public ProcessGroup {
 public:
  Liar(std::unique_ptr<ProcessGroup> inner, std::string_view phase,
       std::shared_ptr<std::mt19937> random)
      : inner_(std::move(inner)), phase_(phase), random_(std::move(random)) {}

  int64_t rank() const override { return inner_->rank(); }
  int64_t size() const override { return inner_->size(); }
  Result<std::vector<std::string>> AllGather(const Meeting& meeting,
                                             std::string value) override {
    if (meeting.phase == phase_) Change(value);
    return inner_->AllGather(meeting, std::move(value));
  }
  Result<std::string> Broadcast(const Meeting& meeting, int64_t root,
                                std::string value) override {
    if (meeting.phase == phase_) Change(value);
    return inner_->Broadcast(meeting, root, std::move(value));
  }
  Status Agree(const Meeting& meeting, const Status& mine) override {
    return inner_->Agree(meeting, mine);
  }
  std::unique_ptr<ProcessGroup> Subgroup(const std::vector<int64_t>& ranks,
                                         std::string_view name) override {
    return std::make_unique<Liar>(inner_->Subgroup(ranks, name), phase_,
                                  random_);
  }
  void BeginCall() override { inner_->BeginCall(); }
  void EndCall(const Status& mine, double wait_seconds_max) override {
    inner_->EndCall(mine, wait_seconds_max);
  }
  uint64_t call_number() const override { return inner_->call_number(); }
  std::vector<int64_t> failed_ranks() const override {
    return inner_->failed_ranks();
  }

 private:
  void Change(std::string& value) {
    std::mt19937& random = *random_;
    if (random() % 4 == 0) value.resize(random() % (value.size() + 9));
    for (int n = random() % 3; n > 0 && !value.empty(); --n) {
      value[random() % value.size()] = static_cast<char>(random());
    }
  }

  const std::unique_ptr<ProcessGroup> inner_;
  const std::string phase_;
  const std::shared_ptr<std::mt19937> random_;
};

TEST_F(TogetherFault, NoMessageHarmsAnybody) {
  uint32_t seed = 0;
  int failure_count = 0;
  for (const char* phase :
       {"read: greet", "read: share", "read: requests", "read: hosts",
        "read: trips", "read: memory", "read: boxes", "read"}) {
    for (int round = 0; round < 12; ++round) {
      const int64_t liar = round % 4;
      ++seed;
      const auto texts = ReadOn(
          4, 0.2, [&](ProcessGroup& group, const Checkpoint& checkpoint) {
            ReadTogetherOptions options;
            options.host = std::to_string(group.rank() / 2);
            options.broadcast_bytes_max = 100000;
            auto requests = Everything();
            requests.resize(2 + group.rank() % 2);
            Liar lying(group.Subgroup({0, 1, 2, 3}, "lies"),
                       group.rank() == liar ? phase : "none",
                       std::make_shared<std::mt19937>(seed));
            return ReadTogether(checkpoint, requests, lying, options).status();
          });
      for (const std::string& text : texts) failure_count += text != "OK";
    }
  }
  EXPECT_GT(failure_count, 0);
}

}  // namespace
}  // namespace holdfast
