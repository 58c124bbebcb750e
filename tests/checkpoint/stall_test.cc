// Ranks that are processes, one of which stops on its way into a meeting: it is
// named on standard error within five seconds, and no other is; when it goes
// on, the save succeeds, and nothing is left of what the ranks said.
//
// HOLDFAST_STALLS: how many stops there are (12 by default), all at once.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/status_macros.h"
#include "checkpoint/test_trees.h"
#include "holdfast/process_group.h"
#include "holdfast/tools/watch.h"
#include "twins/forwarding_group.h"
#include "twins/local_ranks.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

constexpr int64_t kStallRanks = 3;
constexpr std::string_view kStopPhases[] = {"begin", "write", "merge", "ready",
                                            "commit"};

struct Stop {
  int64_t rank = 0;
  std::string phase;
};

class StoppingGroup : public ForwardingGroup {
 public:
  StoppingGroup(ProcessGroup& group, Stop stop)
      : ForwardingGroup(group), stop_(std::move(stop)) {}

  Status Agree(const Meeting& meeting, const Status& mine) override {
    if (group_.rank() == stop_.rank && meeting.phase == stop_.phase) {
      stop_.phase.clear();
      raise(SIGSTOP);
    }
    return group_.Agree(meeting, mine);
  }

 private:
  Stop stop_;
};

// A line of the pipe; "" when none comes within the five seconds promised.
std::string LineFrom(int fd) {
  using std::chrono::steady_clock;
  const auto deadline = steady_clock::now() + std::chrono::seconds(5);
  std::string line;
  while (!line.ends_with('\n')) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - steady_clock::now());
    pollfd poll{fd, POLLIN, 0};
    char c = 0;
    if (left.count() <= 0 ||
        ::poll(&poll, 1, static_cast<int>(left.count())) <= 0 ||
        ::read(fd, &c, 1) != 1) {
      return "";
    }
    line += c;
  }
  return line;
}

// `body` in a process for each rank, and `meanwhile` here. Whether all
// succeeded.
bool OnStoppingRanks(
    const std::function<Status(ProcessGroup&)>& body,
    const std::function<void(const std::vector<pid_t>&)>& meanwhile) {
  const SocketMesh mesh(kStallRanks);
  std::vector<pid_t> children;
  for (int64_t rank = 0; rank < kStallRanks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto group =
          MakeProcessGroup(mesh.TransportOf(rank), {.timeout_seconds = 60});
      ::_exit(body(*group).ok() ? 0 : 1);
    }
    children.push_back(child);
  }
  mesh.CloseAll();
  meanwhile(children);
  bool is_fine = true;
  for (const pid_t child : children) {
    int status = 0;
    is_fine &= ::waitpid(child, &status, 0) == child && status == 0;
  }
  return is_fine;
}

// Whether the rank was named, and the save that it holds up succeeded.
bool IsNamed(const std::string& path, const Stop& stop) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return false;
  bool is_named = false;
  const bool is_saved = OnStoppingRanks(
      [&](ProcessGroup& group) {
        ::dup2(pipe[1], STDERR_FILENO);
        StoppingGroup stopping(group, stop);
        SaveOptions options;
        options.group = &stopping;
        options.sync = false;
        Tree tree = Tree::Dict();
        tree.Add("step", Tree(int64_t{7}));
        return Save(path, tree, options).status();
      },
      [&](const std::vector<pid_t>& children) {
        const pid_t stopped = children[static_cast<size_t>(stop.rank)];
        siginfo_t info;
        ::waitid(P_PID, static_cast<id_t>(stopped), &info,
                 WSTOPPED | WEXITED | WNOWAIT);
        const std::string line = LineFrom(pipe[0]);
        is_named = line.starts_with("holdfast: " + stop.phase + ": " + path) &&
                   line.find("for rank " + std::to_string(stop.rank) + ":") !=
                       std::string::npos;
        if (!is_named) {
          std::fprintf(stderr, "rank %d at %s: got \"%s\"\n",
                       static_cast<int>(stop.rank), stop.phase.c_str(),
                       line.c_str());
        }
        ::kill(stopped, SIGCONT);
      });
  return is_named && is_saved && OpenCheckpoint(path).ok();
}

TEST(Stalls, EveryRankThatStopsIsNamed) {
  const char* const asked = std::getenv("HOLDFAST_STALLS");
  const int stall_count = asked == nullptr ? 12 : std::atoi(asked);
  constexpr int kAtOnce = 12;
  const ScratchDirectory scratch;
  for (int first = 0; first < stall_count; first += kAtOnce) {
    std::vector<pid_t> cases;
    for (int i = first; i < std::min(stall_count, first + kAtOnce); ++i) {
      const Stop stop{i % kStallRanks,
                      std::string(kStopPhases[i / kStallRanks % 5])};
      const pid_t child = ::fork();
      if (child == 0) {
        ::_exit(IsNamed(scratch.path() + "/" + std::to_string(i), stop) ? 0
                                                                        : 1);
      }
      cases.push_back(child);
    }
    for (const pid_t child : cases) {
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    }
  }
  // What the ranks said is gone, and so are the directories they said it in.
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(scratch.path())) {
    EXPECT_THAT(entry.path().filename().string(),
                testing::Not(testing::HasSubstr("-tmp")))
        << entry.path();
  }
}

// An array whose elements come when somebody has seen the save under way.
class SeenReader : public ArrayReader {
 public:
  SeenReader(std::string root, std::vector<LiveSave>* seen)
      : root_(std::move(root)), seen_(seen) {}
  Status Read(const Shape& /*origin*/, const ArrayView& target) const override {
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (seen_->empty() && std::chrono::steady_clock::now() < deadline) {
      HF_ASSIGN_OR_RETURN(*seen_, LiveSaves(root_));
      std::this_thread::yield();
    }
    std::memset(target.data, 1, ElementCount(target.shape) * 4);
    return Status();
  }

 private:
  const std::string root_;
  std::vector<LiveSave>* const seen_;
};

TEST(LiveSaves, ASaveIsSeenAndLeavesNothing) {
  for (const CommitMode mode : {CommitMode::kRename, CommitMode::kMarkerFile}) {
    const ScratchDirectory scratch;
    const std::string path = scratch.path() + "/7";
    std::vector<LiveSave> seen;
    Tree tree = Tree::Dict();
    tree.Add("w", Tree::DeferredArray(
                      DType::kFloat32, {8 << 20},  // watched from 32 MiB on
                      std::make_shared<SeenReader>(scratch.path(), &seen)));
    SaveOptions options;
    options.commit_mode = mode;
    options.sync = false;
    options.run.thread_count = 1;
    ASSERT_TRUE(Save(path, tree, options).ok());
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].path, path);
    ASSERT_EQ(seen[0].ranks.size(), 1u);
    const LiveRank& rank = seen[0].ranks[0];
    EXPECT_EQ(rank.phase, "write");
    EXPECT_EQ(rank.pid, ::getpid());
    EXPECT_EQ(rank.total_bytes, uint64_t{32} << 20);
    EXPECT_EQ(rank.lag, "");
    EXPECT_TRUE(LiveSaves(scratch.path()).value().empty());
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(scratch.path())) {
      EXPECT_THAT(entry.path().filename().string(),
                  testing::Not(testing::HasSubstr("live")));
    }
    EXPECT_TRUE(Verify(path).value().damages.empty());
  }
}

}  // namespace
}  // namespace holdfast
