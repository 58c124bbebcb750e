// Ranks that are processes, one of which is killed during a save: the existing
// steps stay, no half-written step is listed, and the next save succeeds.
//
// HOLDFAST_KILLS: the number of random moments to try (8 by default);
// HOLDFAST_SEED: a seed, to choose other moments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "checkpoint/test_trees.h"
#include "ground/tensor/box.h"
#include "ground/tensor/copy.h"
#include "holdfast/process_group.h"
#include "twins/forwarding_group.h"
#include "twins/local_ranks.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRankCount = 3;
constexpr int64_t kNobody = -1;

// When a rank kills itself: as it enters the collective call `phase`, or
// (`is_after`) as it leaves the call.
struct Moment {
  int64_t rank = kNobody;
  std::string phase;
  bool is_after = false;
};

class DyingGroup : public ForwardingGroup {
 public:
  DyingGroup(ProcessGroup& group, Moment moment)
      : ForwardingGroup(group), moment_(std::move(moment)) {}

  Result<std::vector<std::string>> AllGather(const Meeting& meeting,
                                             std::string value) override {
    DieIf(meeting, false);
    auto values = group_.AllGather(meeting, std::move(value));
    DieIf(meeting, true);
    return values;
  }
  Result<std::string> Broadcast(const Meeting& meeting, int64_t root,
                                std::string value) override {
    DieIf(meeting, false);
    auto result = group_.Broadcast(meeting, root, std::move(value));
    DieIf(meeting, true);
    return result;
  }
  Status Agree(const Meeting& meeting, const Status& mine) override {
    DieIf(meeting, false);
    Status status = group_.Agree(meeting, mine);
    DieIf(meeting, true);
    return status;
  }

 private:
  void DieIf(const Meeting& meeting, bool is_after) const {
    if (group_.rank() == moment_.rank && meeting.phase == moment_.phase &&
        is_after == moment_.is_after) {
      raise(SIGKILL);
    }
  }

  const Moment moment_;
};

class RankKill : public testing::Test {
 protected:
  Tree TreeOf(int64_t rank, uint32_t seed) const {
    Tree tree = Tree::Dict();
    for (int i = 0; i < 12; ++i) {
      const Array whole = RandomArray(DType::kFloat32, {48, 1024}, seed + i);
      const Box box{{rank * 16, 0}, {16, 1024}};
      Array part = *Array::Allocate(DType::kFloat32, box.shape);
      CopyStrided(Subview(whole.view(), box), part.mutable_view());
      tree.Add(
          "w" + std::to_string(10 + i),
          Tree::ShardedArray(whole.shape(), {{box.origin, part}}, Traits()));
    }
    tree.Add("z", Tree(int64_t{seed}));
    return tree;
  }

  Tree Whole(uint32_t seed) const {
    Tree tree = Tree::Dict();
    for (int i = 0; i < 12; ++i) {
      tree.Add(
          "w" + std::to_string(10 + i),
          Tree::JaxArray(RandomArray(DType::kFloat32, {48, 1024}, seed + i),
                         Traits()));
    }
    tree.Add("z", Tree(int64_t{seed}));
    return tree;
  }

  static std::shared_ptr<const ArrayTraits> Traits() {
    return std::make_shared<const ArrayTraits>(
        ArrayTraits{"{}", "", {16, 1024}});
  }

  // Saves step `step` on all ranks, while the parent calls `with_children`.
  // Returns whether all ranks succeeded.
  bool SaveStep(int step, uint32_t seed, const Moment& moment,
                const std::function<void(const std::vector<pid_t>&)>&
                    with_children = {}) {
    return RunRanks(
        [&](ProcessGroup& group) {
          DyingGroup dying(group, moment);
          SaveOptions options;
          options.group = &dying;
          options.sync = false;
          options.overwrite = true;
          options.run.threads = 1;
          return Save(root_ + "/" + std::to_string(step),
                      TreeOf(group.rank(), seed), options)
              .status();
        },
        // The other ranks must not wait long for a killed rank.
        moment.rank == kNobody && !with_children ? 60 : 0.3, with_children);
  }

  bool RunRanks(
      const std::function<Status(ProcessGroup&)>& body, double timeout_seconds,
      const std::function<void(const std::vector<pid_t>&)>& with_children) {
    const SocketMesh mesh(kRankCount);
    std::vector<pid_t> children;
    for (int64_t rank = 0; rank < kRankCount; ++rank) {
      const pid_t child = fork();
      if (child == 0) {
        const auto group = MakeProcessGroup(
            mesh.TransportOf(rank), {.timeout_seconds = timeout_seconds});
        _exit(body(*group).ok() ? 0 : 1);
      }
      children.push_back(child);
    }
    mesh.CloseAll();
    if (with_children) with_children(children);
    bool all_ok = true;
    for (const pid_t child : children) {
      int status = 0;
      waitpid(child, &status, 0);
      all_ok &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    return all_ok;
  }

  void ExpectStep(int step, uint32_t seed) {
    const auto loaded = Load(root_ + "/" + std::to_string(step));
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    EXPECT_TRUE(loaded->tree == Whole(seed)) << "step " << step;
  }

  // Checks the state after the failed save of step 2 with `seed`.
  void ExpectNothingLost(uint32_t seed) {
    ExpectStep(1, 1000);
    const auto steps = ListSteps(root_);
    ASSERT_TRUE(steps.ok());
    bool has_second = false;
    for (const StepInfo& info : *steps) {
      if (!info.committed) continue;
      EXPECT_TRUE(info.name == "1" || info.name == "2") << info.name;
      has_second |= info.name == "2";
    }
    if (has_second) ExpectStep(2, seed);
    ASSERT_TRUE(SaveStep(2, seed + 500, {})) << "the next save";
    ExpectStep(2, seed + 500);
    EXPECT_FALSE(fs::exists(root_ + "/2.orbax-checkpoint-tmp"));
    fs::remove_all(root_ + "/2");
  }

  const ScratchDirectory scratch_;
  const std::string root_ = scratch_ / "run";
};

TEST_F(RankKill, AtEveryNamedPhase) {
  ASSERT_TRUE(SaveStep(1, 1000, {}));
  uint32_t seed = 1;
  for (const char* phase : {"begin", "write", "merge", "ready", "commit"}) {
    for (int64_t rank = 0; rank < kRankCount; ++rank) {
      const Moment moment{rank, phase, false};
      EXPECT_FALSE(SaveStep(2, seed, moment)) << phase << ", rank " << rank;
      ExpectNothingLost(seed++);
    }
  }
  const Moment committed{0, "commit", true};
  SaveStep(2, seed, committed);
  ExpectNothingLost(seed);
}

TEST_F(RankKill, AtRandomMoments) {
  const char* wanted = std::getenv("HOLDFAST_KILLS");
  const int kill_count = wanted ? std::atoi(wanted) : 8;
  ASSERT_TRUE(SaveStep(1, 1000, {}));
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(SaveStep(2, 1, {}));
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - start);
  fs::remove_all(root_ + "/2");
  const char* seed = std::getenv("HOLDFAST_SEED");
  std::mt19937 random(seed ? 8U + std::atoi(seed) : 7U);
  int hit_count = 0;
  for (int i = 0; i < kill_count; ++i) {
    const auto delay = static_cast<useconds_t>(random() % took.count());
    const size_t victim = random() % kRankCount;
    hit_count += !SaveStep(2, 10 + i, {}, [&](const auto& children) {
      usleep(delay);  // the random moment itself
      kill(children[victim], SIGKILL);
    });
    ExpectNothingLost(10 + i);
  }
  EXPECT_GT(hit_count, 0) << "no kill came before the end of a save";
  std::printf("%d kills, %d of them before the end\n", kill_count, hit_count);
}

}  // namespace
}  // namespace holdfast
