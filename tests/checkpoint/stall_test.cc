// Ranks that are processes, one of which stops: on entering a meeting, while it
// reads the elements of an array, or in a write to a store that does not
// return. It must be named on standard error within five seconds, and no other
// rank; when it continues, the save succeeds, and nothing is left of the ranks'
// reports.
//
// HOLDFAST_STALLS: the number of stops (21 by default), all run concurrently.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "checkpoint/test_trees.h"
#include "ground/base/status_macros.h"
#include "holdfast/process_group.h"
#include "holdfast/tools/watch.h"
#include "twins/forwarding_group.h"
#include "twins/local_ranks.h"
#include "twins/scratch_directory.h"

// Simulates a store that hangs: the next write of a process sends a byte to
// `waiting_fd` and waits for a byte from `go_on_fd`.
static std::atomic<bool> next_write_waits = false;
static int waiting_fd = -1, go_on_fd = -1;

extern "C" ssize_t pwritev(int fd, const iovec* pieces, int count,
                           off_t offset) {
  char byte = 'w';
  if (next_write_waits.exchange(false)) {
    (void)!::write(waiting_fd, &byte, 1);
    (void)!::read(go_on_fd, &byte, 1);
  }
  return ::syscall(SYS_pwritev, fd, pieces, count, offset, 0);
}

namespace holdfast {
namespace {

constexpr int64_t kStallRanks = 3;
// Where a rank can stop: first the collective calls, then two places in which a
// rank works by itself.
constexpr std::string_view kElements = "elements", kStore = "store";
constexpr std::string_view kStopPhases[] = {
    "begin", "write", "merge", "ready", "commit", kElements, kStore};
constexpr int kStopPhaseCount = std::size(kStopPhases);

struct Stop {
  int64_t rank = 0;
  std::string phase;
};

// An array that, if `stops`, stops the first process that reads its elements.
class StoppingReader : public ArrayReader {
 public:
  explicit StoppingReader(bool stops) : stops_(stops) {}
  Status Read(const Shape& /*origin*/, const ArrayView& target) const override {
    if (stops_.exchange(false)) raise(SIGSTOP);
    std::memset(target.data, 1, ElementCount(target.shape) * 4);
    return Status();
  }

 private:
  mutable std::atomic<bool> stops_;
};

Tree StallTree(int64_t rank, const Stop& stop) {
  Tree tree = Tree::Dict();
  tree.Add("step", Tree(int64_t{7}));
  // The ranks divide these arrays among themselves: each reads some of them.
  const auto reader = std::make_shared<StoppingReader>(
      stop.phase == kElements && rank == stop.rank);
  for (int i = 0; i < 12; ++i) {
    tree.Add("deferred" + std::to_string(i),
             Tree::DeferredArray(DType::kFloat32, {1000}, reader));
  }
  ArrayTraits traits;
  traits.write_shape = {1000};
  std::vector<ArrayShard> shards;
  shards.push_back(
      {{rank * 1000}, Array::Allocate(DType::kInt8, {1000}).value()});
  tree.Add("w", Tree::ShardedArray(
                    {kStallRanks * 1000}, std::move(shards),
                    std::make_shared<const ArrayTraits>(std::move(traits))));
  return tree;
}

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

using std::chrono::steady_clock;

// Returns a line from the pipe, or "" if none arrives before the deadline.
std::string LineFrom(int fd, steady_clock::time_point deadline) {
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

// Runs `body` in a process for each rank, and `meanwhile` here. Returns whether
// all succeeded.
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

// Returns whether a line arrives within the promised five seconds and names the
// rank that stopped, and no earlier line names another rank.
bool IsNamedIn(int fd, const std::string& path, const Stop& stop) {
  const auto deadline = steady_clock::now() + std::chrono::seconds(5);
  const bool is_meeting = stop.phase != kElements && stop.phase != kStore;
  while (true) {
    const std::string line = LineFrom(fd, deadline);
    // A rank may also report how long its own call takes.
    const bool is_of_call = line.find(" has taken ") != std::string::npos;
    if (!is_meeting && is_of_call) continue;
    const bool is_named =
        line.starts_with("holdfast: " + (is_meeting ? stop.phase : "write") +
                         ": " + path) &&
        line.find("for rank " + std::to_string(stop.rank) + ":") !=
            std::string::npos;
    if (!is_named) {
      std::fprintf(stderr, "rank %d at %s: got \"%s\"\n",
                   static_cast<int>(stop.rank), stop.phase.c_str(),
                   line.c_str());
    }
    return is_named;
  }
}

// Returns whether the rank was named and the save that it delayed succeeded.
bool IsNamed(const std::string& path, const Stop& stop) {
  int pipe[2], waiting[2], go_on[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0 || ::pipe2(waiting, O_CLOEXEC) != 0 ||
      ::pipe2(go_on, O_CLOEXEC) != 0) {
    return false;
  }
  waiting_fd = waiting[1];
  go_on_fd = go_on[0];
  bool is_named = false;
  const bool is_saved = OnStoppingRanks(
      [&](ProcessGroup& group) {
        ::dup2(pipe[1], STDERR_FILENO);
        StoppingGroup stopping(group, stop);
        SaveOptions options;
        options.group = &stopping;
        options.sync = false;
        next_write_waits = stop.phase == kStore && group.rank() == stop.rank;
        return Save(path, StallTree(group.rank(), stop), options).status();
      },
      [&](const std::vector<pid_t>& children) {
        const pid_t stopped = children[static_cast<size_t>(stop.rank)];
        siginfo_t info;
        char byte = 'g';
        if (stop.phase == kStore) {
          (void)!::read(waiting[0], &byte, 1);
        } else {
          ::waitid(P_PID, static_cast<id_t>(stopped), &info,
                   WSTOPPED | WEXITED | WNOWAIT);
        }
        is_named = IsNamedIn(pipe[0], path, stop);
        (void)!::write(go_on[1], &byte, 1);
        ::kill(stopped, SIGCONT);
      });
  return is_named && is_saved && OpenCheckpoint(Place(path)).ok();
}

TEST(Stalls, EveryRankThatStopsIsNamed) {
  const char* const asked = std::getenv("HOLDFAST_STALLS");
  const int stall_count = asked == nullptr ? 21 : std::atoi(asked);
  constexpr int kAtOnce = 21;
  const ScratchDirectory scratch;
  for (int first = 0; first < stall_count; first += kAtOnce) {
    std::vector<pid_t> cases;
    for (int i = first; i < std::min(stall_count, first + kAtOnce); ++i) {
      const Stop stop{
          i % kStallRanks,
          std::string(kStopPhases[i / kStallRanks % kStopPhaseCount])};
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
  // The ranks' files were removed, and so were the temporary directories.
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(scratch.path())) {
    EXPECT_THAT(entry.path().filename().string(),
                testing::Not(testing::HasSubstr("-tmp")))
        << entry.path();
  }
}

// An array whose elements are available only after the running save was
// observed.
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
                      DType::kFloat32, {8 << 20},  // 32 MiB: enough to be seen
                      std::make_shared<SeenReader>(scratch.path(), &seen)));
    SaveOptions options;
    options.commit_mode = mode;
    options.sync = false;
    options.run.threads = 1;
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
