// Processes race for one directory.
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <mutex>
#include <new>
#include <random>
#include <set>
#include <vector>

#include "crash/libc_calls.h"
#include "holdfast/detail/commit.h"
#include "holdfast/holdfast.h"
#include "holdfast/orbax/orbax.h"
#include "holdfast/tools/tools.h"
#include "race/race.h"
#include "tools/powerloss/disk_mirror.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kOverwrittenStep = 7;
constexpr int64_t kFirstOwnStep = 100;  // of the saver that makes new steps
constexpr int64_t kOwnStepCount = 8;
constexpr int kSavesEach = 30;
constexpr int64_t kNumbersEach = 1000;
constexpr int kCodeCount = 32;

// Counters and flags in memory that all processes of a round share.
struct Board {
  std::atomic<uint64_t> saved, refused, whole, violations, calls;
  std::atomic<uint64_t> unread[kCodeCount];
  std::atomic<int> savers_running;
  std::atomic<bool> own_steps[kOwnStepCount];  // acknowledged
};

class SharedBoard {
 public:
  SharedBoard() {
    void* const memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    board_ = new (memory) Board{};
  }
  ~SharedBoard() { ::munmap(board_, sizeof(Board)); }
  Board* operator->() { return board_; }

 private:
  Board* board_;
};

// Pauses at calls that the seed chooses until other processes have made some
// calls, and dies at the call `last_call`. Renames and syncs decide races, so
// it pauses there often and long.
class Disturbance : public CallHook {
 public:
  Disturbance(uint64_t seed, long last_call, std::atomic<uint64_t>& all_calls)
      : random_(seed), last_call_(last_call), all_calls_(all_calls) {}

  long Run(const FileCall& call, const std::function<long()>& make) override {
    StandStill(NextWait(call.kind));
    const long result = make();
    const int error = errno;
    ++all_calls_;
    errno = error;
    return result;
  }

 private:
  // Returns how many calls of other processes to wait for.
  uint64_t NextWait(FileCallKind kind) {
    const std::lock_guard lock(mutex_);
    if (++call_count_ == last_call_) ::kill(::getpid(), SIGKILL);
    const uint64_t draw = random_(), length = random_();
    switch (kind) {
      case FileCallKind::kRename:
      case FileCallKind::kExchange:
      case FileCallKind::kSync:
        return draw % 2 == 0 ? length % 2000 : 0;
      case FileCallKind::kMakeDirectory:
      case FileCallKind::kUnlink:
        return draw % 16 == 0 ? length % 500 : 0;
      default:
        return draw % 200 == 0 ? length % 100 : 0;
    }
  }
  void StandStill(uint64_t wait) {
    const uint64_t last = all_calls_ + wait;
    for (uint64_t i = 0; all_calls_ < last && i < wait; ++i) {
      ::sched_yield();
    }
  }

  std::mutex mutex_;
  std::mt19937_64 random_;
  const long last_call_;  // 0: none
  long call_count_ = 0;
  std::atomic<uint64_t>& all_calls_;
};

struct Setting {
  uint64_t seed = 0;
  std::string root;
  CommitMode mode = CommitMode::kRename;
  bool use_ocdbt = true;

  std::string path() const {
    return root + "/" + std::to_string(kOverwrittenStep);
  }
  SaveOptions save_options() const {
    SaveOptions options;
    options.overwrite = true;
    options.sync = false;
    options.use_ocdbt = use_ocdbt;
    options.commit_mode = mode;
    options.run.threads = 1;
    return options;
  }
};

// One round: the parties are child processes, so that they can be killed.
class DiskRound {
 public:
  explicit DiskRound(uint64_t seed) : random_(seed) {
    setting_.seed = seed;
    setting_.root = directory_.path();
    if (seed % 4 >= 2 && seed % 8 >= 4) setting_.mode = CommitMode::kMarkerFile;
    setting_.use_ocdbt = seed % 3 != 2;
  }

  RaceCounts Execute() {
    InChild([this] { Prepare(); });
    Race();
    InChild([this] { Judge(); });
    return Counts();
  }

 private:
  using Work = std::function<void()>;

  void Violation(const std::string& what) {
    ++board_->violations;
    std::fprintf(stderr, "seed %llu: %s\n",
                 static_cast<unsigned long long>(setting_.seed), what.c_str());
    for (const auto& entry : fs::directory_iterator(setting_.root)) {
      std::fprintf(stderr, "  %s\n", entry.path().filename().c_str());
    }
  }

  pid_t Start(const Work& work) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    work();
    ::_exit(0);
  }
  void InChild(const Work& work) {
    int status = 0;
    ::waitpid(Start(work), &status, 0);
    if (status != 0) Violation("a judge died");
  }

  void Prepare() {
    for (const int64_t step : {1, 2, 3}) {
      Expect(Save(StepPath(step), TreeOfNumber(step), setting_.save_options())
                 .status());
    }
    Expect(Save(setting_.path(), TreeOfNumber(0), setting_.save_options())
               .status());
  }
  void Expect(const Status& status) {
    if (!status.ok()) Violation(status.ToString());
  }
  std::string StepPath(int64_t step) const {
    return setting_.root + "/" + std::to_string(step);
  }

  void Race() {
    std::vector<Work> parties;
    // With only two savers, it is more likely that one of them runs while the
    // other is in the middle of a commit.
    const bool is_pair = setting_.seed % 2 == 0;
    for (int64_t saver = 1; saver <= (is_pair ? 2 : 3); ++saver) {
      parties.push_back([=, this] { Overwrite(saver); });
    }
    if (!is_pair) parties.push_back([this] { SaveOwnSteps(); });
    board_->savers_running = static_cast<int>(parties.size());
    if (!is_pair) parties.push_back([this] { Prune(); });
    if (!is_pair) parties.push_back([this] { CleanUp(); });
    parties.push_back([this] { ReadAll(); });
    std::vector<pid_t> children;
    for (const Work& work : parties) {
      const bool dies = random_() % 3 == 0;
      const long last_call = dies ? static_cast<long>(1 + random_() % 3000) : 0;
      const uint64_t seed = random_();
      children.push_back(Start([&] {
        Disturbance disturbance(seed, last_call, board_->calls);
        const ScopedCallHook hook(&disturbance);
        work();
      }));
    }
    size_t saver_count = static_cast<size_t>(board_->savers_running);
    for (size_t i = 0; i < children.size(); ++i) {
      int status = 0;
      ::waitpid(children[i], &status, 0);
      if (i < saver_count) --board_->savers_running;
      if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ++died_;
      if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL) {
        Violation("a party crashed");
      }
    }
  }

  void Count(const Status& saved) {
    ++(saved.ok() ? board_->saved : board_->refused);
    const bool is_in_words = saved.ok() ||
                             saved.code() == StatusCode::kAlreadyExists ||
                             saved.code() == StatusCode::kFailedPrecondition ||
                             saved.code() == StatusCode::kNotFound;
    if (!is_in_words) Violation("a save: " + saved.ToString());
  }

  void Overwrite(int64_t saver) {
    for (int i = 1; i <= kSavesEach; ++i) {
      Count(Save(setting_.path(), TreeOfNumber(saver * kNumbersEach + i),
                 setting_.save_options())
                .status());
    }
  }
  void SaveOwnSteps() {
    for (int64_t i = 0; i < kOwnStepCount; ++i) {
      const int64_t step = kFirstOwnStep + i;
      const Status saved =
          Save(StepPath(step), TreeOfNumber(step), setting_.save_options())
              .status();
      Count(saved);
      board_->own_steps[i] = saved.ok();
    }
  }

  void Prune() {
    std::set<int64_t> kept = {kOverwrittenStep};
    for (int64_t i = 0; i < kOwnStepCount; ++i) {
      kept.insert(kFirstOwnStep + i);
    }
    while (board_->savers_running > 0) {
      PruneOptions options;
      options.keep.push_back({"kept", CustomSteps{kept}});
      const auto plan = PlanPrune(setting_.root, options);
      if (plan.ok()) (void)holdfast::Prune(setting_.root, *plan);
      (void)EmptyTrash(setting_.root);
    }
  }
  void CleanUp() {
    while (board_->savers_running > 0) {
      (void)CleanupTemporaryPaths(setting_.root, setting_.mode);
    }
  }

  void ReadAll() {
    LoadOptions options;
    options.run.threads = 1;
    while (board_->savers_running > 0) {
      struct stat info;
      if (setting_.mode == CommitMode::kRename &&
          ::lstat(setting_.path().c_str(), &info) != 0) {
        Violation("the path is gone for a moment");
      }
      const auto loaded = Load(setting_.path(), options);
      if (!loaded.ok()) {
        ++board_->unread[static_cast<int>(loaded.status().code())];
      } else if (!IsOfSomeSaver(NumberOfTree(loaded->tree))) {
        Violation("a load gave what nobody saved");
      } else {
        ++board_->whole;
      }
    }
  }
  static bool IsOfSomeSaver(int64_t number) {
    const int64_t saver = number / kNumbersEach, i = number % kNumbersEach;
    return number == 0 ||
           (saver >= 1 && saver <= 3 && i >= 1 && i <= kSavesEach);
  }

  // Returns the number at a path. If the checkpoint is not complete, reports
  // the violation and returns -1.
  int64_t NumberAt(const std::string& path) {
    const auto loaded = Load(path);
    if (!loaded.ok()) {
      Violation(path + ": " + loaded.status().ToString());
      return -1;
    }
    const auto report = Verify(path);
    if (!report.ok() || !report->damages.empty()) {
      Violation(path + " is damaged");
    }
    return NumberOfTree(loaded->tree);
  }

  void Judge() {
    // If a marker file commits, a save that died may have renamed the old
    // checkpoint.
    if (setting_.mode == CommitMode::kMarkerFile) {
      Expect(CleanupTemporaryPaths(setting_.root, setting_.mode).status());
    }
    if (!IsOfSomeSaver(NumberAt(setting_.path()))) {
      Violation("what is at the path is of nobody");
    }
    for (int64_t i = 0; i < kOwnStepCount; ++i) {
      const int64_t step = kFirstOwnStep + i;
      if (board_->own_steps[i] && NumberAt(StepPath(step)) != step) {
        Violation("an acknowledged step is lost");
      }
    }
    Expect(Save(setting_.path(), TreeOfNumber(1), setting_.save_options())
               .status());
    if (NumberAt(setting_.path()) != 1) Violation("the next save is not there");
    Expect(CleanupTemporaryPaths(setting_.root, setting_.mode).status());
    for (const auto& entry : fs::directory_iterator(setting_.root)) {
      const std::string name = entry.path().filename();
      const bool is_step =
          name.find_first_not_of("0123456789") == std::string::npos;
      if (!is_step && name != kTrashDirectoryName) {
        Violation("left over: " + name);
      }
    }
  }

  RaceCounts Counts() {
    RaceCounts counts;
    counts.rounds = 1;
    counts.saved = board_->saved;
    counts.refused = board_->refused;
    counts.whole = board_->whole;
    counts.died = died_;
    counts.violations = board_->violations;
    for (int i = 0; i < kCodeCount; ++i) {
      if (board_->unread[i] == 0) continue;
      const auto code = static_cast<StatusCode>(i);
      counts.unread[std::string(StatusCodeName(code))] = board_->unread[i];
    }
    return counts;
  }

  const MemoryDirectory directory_;
  Setting setting_;
  std::mt19937_64 random_;
  SharedBoard board_;
  uint64_t died_ = 0;
};

}  // namespace

RaceCounts RaceOnDisk(uint64_t seed) { return DiskRound(seed).Execute(); }

}  // namespace holdfast
