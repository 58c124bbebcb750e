// A job of about 16 hosts, each a process with its own directory, is started
// many times. In each of these lives, it restores, saves and copies to the
// shared tier. One or two hosts are killed, at a change of their files or at
// any time, run out of space, or stop. Then directories are wiped, damaged, or
// replaced by older ones, and the next life has other hosts in another order.
// Each restore must return a state that was saved, bit for bit, and never older
// than the state that the promise of doc/tiers.md covers.
//
// HOLDFAST_HOST_KILLS: the number of lives (500 by default); HOLDFAST_SEED: a
// seed, to choose other lives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "tiers/host_life.h"
#include "tiers/manager/tier_record.h"
#include "twins/local_ranks.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kParityCount = 2;
constexpr int64_t kRankCountMax = 18;
constexpr double kPatienceForALife = 120;  // seconds

int64_t NumberFrom(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoll(text);
}

// A member's directory on a host.
struct Copy {
  int64_t host;
  int64_t rank;
  auto operator<=>(const Copy&) const = default;
};

// The state that the promise currently covers.
struct Promise {
  Moment local;            // the newest step known to be protected
  int64_t rank_count = 0;  // of its save
  std::set<Copy> copies;   // the complete copies
  std::set<int64_t> lost_hosts;  // lost since all copies were complete
  Moment shared;                 // the newest step known to be copied
};

class HostKills : public testing::Test {
 protected:
  HostKills() : random_(static_cast<uint32_t>(NumberFrom("HOLDFAST_SEED", 1))) {
    void* memory =
        ::mmap(nullptr, sizeof(HostReport) * kRankCountMax,
               PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    reports_ = static_cast<HostReport*>(memory);
    for (int64_t host = 0; host < 16; ++host) hosts_.push_back(host);
    fs::create_directories(scratch_ / "shared");
  }
  ~HostKills() override {
    ::munmap(reports_, sizeof(HostReport) * kRankCountMax);
  }

  int64_t Pick(int64_t begin, int64_t end) {
    return std::uniform_int_distribution<int64_t>(begin, end - 1)(random_);
  }
  bool Chance(double p) { return std::bernoulli_distribution(p)(random_); }

  // --- The plan of a life ---

  Life NextLife() {
    Life life;
    life.number = life_count_++;
    life.root = scratch_.path();
    std::shuffle(hosts_.begin(), hosts_.end(), random_);
    life.hosts = hosts_;
    life.fates.resize(hosts_.size());
    life.save_count = Pick(1, 4);
    life.shared_every = 2;
    const int64_t shards[] = {2, 6, 14};
    life.data_shards = shards[Pick(0, 3)];
    const double kind = static_cast<double>(Pick(0, 1000)) / 1000;
    if (kind < 0.03) {
      life.answer_seconds_max = 1;
      DoomOne(life, Doom::kStop);
    } else if (kind < 0.08) {
      DoomOne(life, Doom::kNoSpace);
    } else if (kind < 0.70) {
      DoomOne(life, Doom::kKill);
      DoomOne(life, Chance(0.5) ? Doom::kKill : Doom::kTear);
    }
    return life;
  }

  void DoomOne(Life& life, Doom doom) {
    Life::Fate fate{doom, Pick(1, change_count_ + 1), Place::kAny};
    if (Chance(0.3)) {
      // The first changes are those of a restore.
      fate.at_change = Pick(1, 30);
    } else if (Chance(0.5)) {
      fate.place = static_cast<Place>(Pick(1, 6));
      fate.at_change = Pick(1, fate.place == Place::kProtect ? 8 : 25);
    }
    life.fates[Pick(0, std::ssize(life.fates))] = fate;
  }

  // --- The course of a life ---

  std::vector<pid_t> Start(const Life& life) {
    for (int64_t rank = 0; rank < kRankCountMax; ++rank) {
      new (&reports_[rank]) HostReport;
    }
    const int64_t size = std::ssize(life.hosts);
    const SocketMesh mesh(size);
    std::vector<pid_t> children;
    for (int64_t rank = 0; rank < size; ++rank) {
      const pid_t child = ::fork();
      if (child == 0) ::_exit(BeHost(life, rank, mesh));
      children.push_back(child);
    }
    mesh.CloseAll();
    return children;
  }

  int BeHost(const Life& life, int64_t rank, const SocketMesh& mesh) {
    HostReport& report = reports_[rank];
    const auto group = MakeProcessGroup(
        mesh.TransportOf(rank), {.timeout_seconds = life.answer_seconds_max});
    const Status lived = LiveAsHost(life, rank, *group, report);
    if (lived.ok()) return 0;
    std::snprintf(report.error, sizeof report.error, "%s",
                  lived.ToString().c_str());
    report.has_failed = true;
    return 1;
  }

  // Runs a life. When a host is killed, the others do not live much longer.
  void LiveThrough(const Life& life) {
    std::vector<pid_t> children = Start(life);
    const bool is_killed = life.Has(Doom::kKill) || life.Has(Doom::kTear);
    const bool kills_all = is_killed && Chance(0.5);
    // Some also die between changes of files.
    if (life.Has(Doom::kNone) && is_killed && Chance(0.3)) {
      std::this_thread::sleep_for(std::chrono::microseconds(
          Pick(0, static_cast<int64_t>(life_seconds_ * 1e6) + 1)));
      ::kill(children[Pick(0, std::ssize(children))], SIGKILL);
    }
    const auto begun = std::chrono::steady_clock::now();
    const auto seconds = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                           begun)
          .count();
    };
    std::set<pid_t> alive(children.begin(), children.end());
    bool is_ending = false;
    while (!alive.empty()) {
      int status = 0;
      const pid_t ended = ::waitpid(-1, &status, WNOHANG | WUNTRACED);
      if (ended <= 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(300));
        if (seconds() > kPatienceForALife) {
          ADD_FAILURE() << "life " << life.number
                        << " does not end: " << alive.size()
                        << " hosts are left";
          is_ending = true;
        }
      } else if (!WIFSTOPPED(status)) {
        alive.erase(ended);
        // During the first collective call, only the caller's group notices a
        // death.
        is_ending |= WIFSIGNALED(status) && (kills_all || AnyBegins(life));
      }
      // A stopped host is killed when all others have given up.
      if (is_ending || (life.Has(Doom::kStop) && alive.size() == 1)) {
        for (const pid_t child : alive) ::kill(child, SIGKILL);
      }
    }
    if (!is_killed && !life.Has(Doom::kStop)) life_seconds_ = seconds();
  }

  bool AnyBegins(const Life& life) const {
    for (size_t rank = 0; rank < life.hosts.size(); ++rank) {
      if (reports_[rank].stage == Stage::kBegin) return true;
    }
    return false;
  }

  // --- Checks of a life ---

  int64_t LostMemberCount() const {
    std::set<int64_t> whole;
    for (const Copy& copy : promise_.copies) whole.insert(copy.rank);
    return promise_.rank_count - std::ssize(whole);
  }

  bool IsLocalPromised() const {
    return !promise_.local.is_none() && LostMemberCount() <= kParityCount &&
           std::ssize(promise_.lost_hosts) <= kParityCount;
  }

  void Judge(const Life& life) {
    const Moment at_least = IsLocalPromised()
                                ? std::max(promise_.local, promise_.shared)
                                : promise_.shared;
    std::optional<Moment> restored;
    for (size_t rank = 0; rank < life.hosts.size(); ++rank) {
      const HostReport& report = reports_[rank];
      EXPECT_FALSE(report.is_wrong) << "rank " << rank << ": a wrong value";
      Tally(report, life.fates[rank].doom);
      if (!report.has_restored) continue;
      EXPECT_EQ(restored.value_or(report.restored()), report.restored());
      restored = report.restored();
      EXPECT_GE(report.restored(), at_least)
          << "restored step " << report.restored().step << " of life "
          << report.restored().life << ", and step " << at_least.step
          << " of life " << at_least.life << " was promised";
      EXPECT_TRUE(report.restored().is_none() ||
                  saved_.contains(report.restored()))
          << "nobody saved that";
    }
    if (IsQuiet(life)) {
      for (size_t rank = 0; rank < life.hosts.size(); ++rank) {
        EXPECT_EQ(reports_[rank].stage, Stage::kEnd)
            << "rank " << rank << ": " << reports_[rank].error;
      }
    }
    if (life.Has(Doom::kStop)) JudgeStop(life);
    if (restored) Learn(life, *restored);
  }

  // Whether no host was disturbed.
  static bool IsQuiet(const Life& life) {
    return !life.Has(Doom::kKill) && !life.Has(Doom::kTear) &&
           !life.Has(Doom::kStop) && !life.Has(Doom::kNoSpace);
  }

  // Checks a stopped host: all others have ended, and those that waited for it
  // name it.
  void JudgeStop(const Life& life) {
    for (size_t stopped = 0; stopped < life.fates.size(); ++stopped) {
      if (life.fates[stopped].doom != Doom::kStop) continue;
      if (reports_[stopped].stage == Stage::kBegin ||
          reports_[stopped].stage == Stage::kEnd ||
          reports_[stopped].place == Place::kAny) {
        return;
      }
      ++stop_count_;
      const std::string name =
          "rank " + std::to_string(stopped) + " (127.0.0.1)";
      int64_t naming_count = 0;
      bool has_failed = false;
      std::string errors;
      for (size_t rank = 0; rank < life.hosts.size(); ++rank) {
        const std::string error = reports_[rank].error;
        naming_count += error.find(name) != std::string::npos;
        has_failed = has_failed || !error.empty();
        errors += "\n  rank " + std::to_string(rank) + ": " + error;
      }
      // The host may have stopped when no other host needed it any more.
      EXPECT_EQ(has_failed, naming_count > 0)
          << "nobody names " << name << errors;
      named_count_ += naming_count;
    }
  }

  void Learn(const Life& life, const Moment& restored) {
    promise_.lost_hosts.clear();
    promise_.local = restored;
    if (reports_[0].was_shared || restored.is_none()) promise_.local = Moment();
    promise_.shared =
        std::max(promise_.shared, reports_[0].was_shared ? restored : Moment());
    promise_.copies.clear();
    promise_.rank_count = 0;
    bool is_promised = false;
    for (size_t rank = 0; rank < life.hosts.size(); ++rank) {
      const HostReport& report = reports_[rank];
      if (report.drained_step >= 0) {
        promise_.shared = {life.number, report.drained_step};
      }
      if (report.protected_step < 0) continue;
      const Moment saved{life.number, report.protected_step};
      promise_.local = std::max(promise_.local, saved);
      is_promised = true;
    }
    for (int64_t step = restored.step;
         step <= std::max<int64_t>(restored.step, 0) + life.save_count;
         ++step) {
      saved_.insert({life.number, step});
    }
    if (is_promised) {
      promise_.rank_count = std::ssize(life.hosts);
      for (size_t rank = 0; rank < life.hosts.size(); ++rank) {
        promise_.copies.insert({life.hosts[rank], static_cast<int64_t>(rank)});
      }
      rank_counts_[life.number] = promise_.rank_count;
    } else if (!promise_.local.is_none()) {
      FindCopies(life);
    }
  }

  // Finds where a restored step is stored.
  void FindCopies(const Life& life) {
    promise_.rank_count = rank_counts_[promise_.local.life];
    for (size_t rank = 0; rank < life.hosts.size(); ++rank) {
      const std::string path = RunPath(HostPath(life, rank));
      if (!fs::exists(path)) continue;
      for (const auto& entry : fs::directory_iterator(path)) {
        const auto member =
            ParseDirectoryName(entry.path().filename().string());
        if (member && member->step.step == promise_.local.step &&
            fs::exists(entry.path() / "protected")) {
          promise_.copies.insert({life.hosts[rank], member->rank});
        }
      }
    }
  }

  // --- The fate of directories between lives ---

  void LoseHost(int64_t host) {
    promise_.lost_hosts.insert(host);
    std::erase_if(promise_.copies,
                  [&](const Copy& copy) { return copy.host == host; });
  }

  std::string PathOf(int64_t host) const {
    return scratch_ / ("host" + std::to_string(host));
  }

  void Wreck() {
    if (Chance(0.3)) {
      // An older state of this host will be restored later.
      const int64_t host = hosts_[Pick(0, std::ssize(hosts_))];
      const std::string kept = PathOf(host) + ".old";
      fs::remove_all(kept);
      if (fs::exists(PathOf(host))) {
        fs::copy(PathOf(host), kept, fs::copy_options::recursive);
      }
    }
    int64_t count = Pick(0, kParityCount + 1);
    if (Chance(0.05)) count = Pick(kParityCount + 1, std::ssize(hosts_) + 1);
    std::vector<int64_t> victims(promise_.lost_hosts.begin(),
                                 promise_.lost_hosts.end());
    while (std::ssize(victims) < count) {
      const int64_t host = hosts_[Pick(0, std::ssize(hosts_))];
      if (std::find(victims.begin(), victims.end(), host) == victims.end()) {
        victims.push_back(host);
      }
    }
    std::shuffle(victims.begin(), victims.end(), random_);
    victims.resize(std::min<size_t>(victims.size(), count));
    for (const int64_t host : victims) WreckHost(host);
    Replace(count);
  }

  void WreckHost(int64_t host) {
    LoseHost(host);
    const std::string path = PathOf(host);
    const int64_t kind = Pick(0, 10);
    if (kind < 5 || !fs::exists(path)) {
      fs::remove_all(path);
    } else if (kind == 5 && fs::exists(path + ".old")) {
      fs::remove_all(path);
      fs::rename(path + ".old", path);
    } else {
      DamageFiles(path);
    }
  }

  void DamageFiles(const std::string& path) {
    std::vector<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    if (files.empty()) return;
    const int64_t count = Pick(1, 8);
    for (int64_t i = 0; i < count; ++i) {
      const std::string& file = files[Pick(0, std::ssize(files))];
      std::error_code ignored;
      const int64_t size = static_cast<int64_t>(fs::file_size(file, ignored));
      if (!fs::exists(file)) continue;
      ++damage_count_;
      const int64_t kind = Pick(0, 8);
      if (kind == 0) {
        fs::remove(file);
      } else if (kind == 1 || size == 0) {
        fs::resize_file(file, size == 0 ? 3 : Pick(0, size));
      } else {
        FlipBit(file, Pick(0, size));
      }
    }
  }

  void FlipBit(const std::string& path, int64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(offset);
    const int byte = file.get();
    file.seekp(offset);
    file.put(static_cast<char>(byte ^ (1 << Pick(0, 8))));
  }

  // Brings wrecked hosts back, or puts other hosts in their place. Occasionally
  // changes the number of hosts.
  void Replace(int64_t wrecked_count) {
    for (int64_t& host : hosts_) {
      if (promise_.lost_hosts.contains(host) && Chance(0.5)) {
        host = next_host_++;
      }
    }
    if (!Chance(0.2)) return;
    if (Chance(0.5) && hosts_.size() < kRankCountMax) {
      hosts_.push_back(next_host_++);
    } else if (hosts_.size() > 13 && wrecked_count < kParityCount &&
               std::ssize(promise_.lost_hosts) < kParityCount) {
      LoseHost(hosts_.back());
      hosts_.pop_back();
    }
  }

  // Removes all older states: after everything was lost, none may return.
  void ForgetAll() {
    for (const auto& entry : fs::directory_iterator(scratch_.path())) {
      if (entry.path().extension() == ".old") fs::remove_all(entry.path());
    }
  }

  // --- Counts ---

  void Tally(const HostReport& report, Doom doom) {
    change_count_ = std::max<long>(change_count_, report.change_count);
    const bool has_died = (doom == Doom::kKill || doom == Doom::kTear) &&
                          report.stage != Stage::kEnd && !report.has_failed;
    if (!has_died) return;
    const std::string stage = report.stage == Stage::kBegin     ? "begin"
                              : report.stage == Stage::kRestore ? "restore"
                                                                : "save";
    const char* places[] = {"between changes", "data",   "parity",
                            "protect",         "remove", "shared"};
    ++kills_[stage + " " + places[static_cast<int>(report.place.load())]];
  }

  const ScratchDirectory scratch_;
  std::mt19937 random_;
  HostReport* reports_ = nullptr;
  std::vector<int64_t> hosts_;
  int64_t next_host_ = 16;
  int64_t life_count_ = 0;
  Promise promise_;
  std::set<Moment> saved_;
  std::map<int64_t, int64_t> rank_counts_;  // by life
  long change_count_ = 60;
  double life_seconds_ = 0.1;
  int64_t damage_count_ = 0;
  int64_t stop_count_ = 0;
  int64_t named_count_ = 0;
  std::map<std::string, int64_t> kills_;
};

TEST_F(HostKills, NothingPromisedIsLostAndNothingIsWrong) {
  const int64_t count = NumberFrom("HOLDFAST_HOST_KILLS", 500);
  int64_t nothing_count = 0;
  int64_t promised_count = 0;
  for (int64_t i = 0; i < count && !HasFailure(); ++i) {
    const Life life = NextLife();
    promised_count += IsLocalPromised();
    LiveThrough(life);
    Judge(life);
    if (reports_[0].has_restored && reports_[0].restored().is_none()) {
      ++nothing_count;
      ForgetAll();
    }
    Wreck();
  }
  std::printf(
      "%ld lives; %ld began with a promise, %ld with nothing; %ld "
      "damages; %ld stops, named by %ld\n",
      count, promised_count, nothing_count, damage_count_, stop_count_,
      named_count_);
  for (const auto& [place, kills] : kills_) {
    std::printf("killed at %s: %ld\n", place.c_str(), kills);
  }
}

}  // namespace
}  // namespace holdfast
