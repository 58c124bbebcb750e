// Threads, each simulating a process with its own client, race for one bucket
// in memory.
#include <sched.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "engine/commit/lease.h"
#include "holdfast/detail/commit.h"
#include "holdfast/holdfast.h"
#include "holdfast/tools/tools.h"
#include "race/race.h"
#include "stores/place/bucket_registry.h"
#include "twins/fault_bucket.h"
#include "twins/memory_bucket.h"

namespace holdfast {
namespace {

constexpr int kSaverCount = 3;
constexpr int kPartyCount = 6;
constexpr int kSaves = 4;
constexpr int64_t kNumbers = 1000;
constexpr int64_t kMinuteNs = int64_t{61} * 1'000'000'000;

class BucketRound {
 public:
  explicit BucketRound(uint64_t seed)
      : seed_(seed),
        random_(seed),
        memory_(std::make_shared<MemoryBucket>(
            seed % 2 == 0 ? MemoryBucketOptions::GcsLike()
                          : MemoryBucketOptions::S3Like())) {
    for (int i = 0; i <= kPartyCount; ++i) {
      buckets_.push_back(std::make_shared<FaultBucket>(memory_));
    }
    // Time passes only while no other party runs, so that no running party's
    // lease expires.
    SetLeaseSleepForTest([this](double seconds) {
      ::sched_yield();
      if (running_ > 1) return;
      memory_->AdvanceTime(static_cast<int64_t>(seconds * 1e9));
    });
    BucketRegistry::Default().Register(
        "mem", [this](const std::string& root, const RemoteOptions&) {
          const size_t party = std::stoul(root.substr(root.rfind('p') + 1));
          return Result<std::shared_ptr<Bucket>>(buckets_[party]);
        });
  }
  ~BucketRound() { SetLeaseSleepForTest(nullptr); }

  RaceCounts Execute() {
    counts_.rounds = 1;
    Expect(SaveNumber(kPartyCount, "7", 0));
    Race();
    Judge();
    if (counts_.violations > 0) WriteTrace();
    return counts_;
  }

 private:
  static std::string At(int party, const std::string& name) {
    return "mem://p" + std::to_string(party) + "/run/" + name;
  }
  static Status SaveNumber(int party, const std::string& name, int64_t number) {
    SaveOptions options;
    options.overwrite = true;
    options.run.threads = 1;
    return Save(At(party, name), TreeOfNumber(number), options).status();
  }

  void Violation(const std::string& what) {
    const std::lock_guard lock(mutex_);
    ++counts_.violations;
    std::fprintf(stderr, "bucket, seed %llu: %s\n",
                 static_cast<unsigned long long>(seed_), what.c_str());
  }
  void Expect(const Status& status) {
    if (!status.ok()) Violation(status.ToString());
  }

  // Makes the party pause before some requests, chosen by the seed, until other
  // parties have made requests, and possibly die at a request.
  void Disturb(int party) {
    if (random_() % 3 == 0) {
      buckets_[party]->SetFaults({.fail_at = 1 + random_() % 200,
                                  .acts = random_() % 2 == 0,
                                  .dies = true});
    }
    auto random = std::make_shared<std::mt19937_64>(random_());
    auto mutex = std::make_shared<std::mutex>();
    buckets_[party]->SetHook([=, this](BucketRequest kind,
                                       std::string_view key) {
      uint64_t wait = 0;
      {
        const std::lock_guard lock(*mutex);
        if ((*random)() % 8 == 0) wait = (*random)() % 60;
      }
      const uint64_t last = ++request_count_ + wait;
      for (int i = 0; request_count_ < last && running_ > 1 && i < 2000; ++i) {
        ::sched_yield();
      }
      Note(party, kind, key);
      return Status();
    });
  }
  // Writes the steps that led to the violation. The seed is not enough, because
  // the order of the threads varies.
  void WriteTrace() {
    const std::string path = "race-" + std::to_string(seed_) + ".trace";
    std::ofstream file(path);
    for (const std::string& request : trace_) file << request << '\n';
    std::fprintf(stderr, "all requests are in %s\n", path.c_str());
  }
  void Note(int party, BucketRequest kind, std::string_view key) {
    const std::lock_guard lock(trace_mutex_);
    trace_.push_back("p" + std::to_string(party) + " " +
                     std::string(BucketRequestName(kind)) + " " +
                     std::string(key));
  }

  void Race() {
    std::vector<std::thread> parties;
    for (int party = 0; party < kPartyCount; ++party) Disturb(party);
    running_ = kPartyCount;
    savers_running_ = kSaverCount + 1;
    for (int party = 0; party < kPartyCount; ++party) {
      parties.emplace_back([=, this] {
        if (party < kSaverCount) Overwrite(party);
        if (party == kSaverCount) SaveOwnSteps(party);
        if (party <= kSaverCount) --savers_running_;
        if (party == kSaverCount + 1) CleanUp(party);
        if (party == kSaverCount + 2) ReadAll(party);
        --running_;
      });
    }
    for (std::thread& thread : parties) thread.join();
    for (int party = 0; party < kPartyCount; ++party) {
      counts_.died += buckets_[party]->died() ? 1 : 0;
    }
  }

  void Count(int party, const Status& saved) {
    if (buckets_[party]->died()) return;
    const std::lock_guard lock(mutex_);
    ++(saved.ok() ? counts_.saved : counts_.refused);
  }
  void Overwrite(int party) {
    for (int i = 1; i <= kSaves && !buckets_[party]->died(); ++i) {
      Count(party, SaveNumber(party, "7", (party + 1) * kNumbers + i));
    }
  }
  void SaveOwnSteps(int party) {
    for (int64_t step = 100; step < 100 + kSaves; ++step) {
      const Status saved = SaveNumber(party, std::to_string(step), step);
      Count(party, saved);
      if (saved.ok()) own_steps_.push_back(step);
    }
  }
  void CleanUp(int party) {
    while (savers_running_ > 0 && !buckets_[party]->died()) {
      (void)CleanupTemporaryPaths("mem://p" + std::to_string(party) + "/run");
    }
  }
  void ReadAll(int party) {
    LoadOptions options;
    options.run.threads = 1;
    while (savers_running_ > 0 && !buckets_[party]->died()) {
      const auto loaded = Load(At(party, "7"), options);
      const bool is_whole =
          loaded.ok() && IsOfSomeSaver(NumberOfTree(loaded->tree));
      if (loaded.ok() && !is_whole) {
        Violation("a load gave what nobody saved");
      }
      const std::lock_guard lock(mutex_);
      if (is_whole) ++counts_.whole;
      if (!loaded.ok()) {
        ++counts_.unread[std::string(StatusCodeName(loaded.status().code()))];
      }
    }
  }
  static bool IsOfSomeSaver(int64_t number) {
    const int64_t saver = number / kNumbers, i = number % kNumbers;
    return number == 0 ||
           (saver >= 1 && saver <= kSaverCount && i >= 1 && i <= kSaves);
  }

  // Returns the number at a path, read with a client that is not disturbed.
  int64_t NumberAt(const std::string& name) {
    const std::string path = At(kPartyCount, name);
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
    memory_->AdvanceTime(kMinuteNs);
    const std::string root = "mem://p" + std::to_string(kPartyCount) + "/run";
    Expect(CleanupTemporaryPaths(root).status());
    if (!IsOfSomeSaver(NumberAt("7"))) {
      Violation("what is at the path is of nobody");
    }
    for (const int64_t step : own_steps_) {
      if (NumberAt(std::to_string(step)) != step) {
        Violation("an acknowledged step is lost");
      }
    }
    Expect(SaveNumber(kPartyCount, "7", 1));
    if (NumberAt("7") != 1) Violation("the next save is not there");
    for (const char* leftover :
         {"run/7.holdfast-replaced/", "run/7/_HOLDFAST_S"}) {
      const auto page =
          memory_->List({.prefix = leftover, .entry_count_max = 1});
      if (!page.ok() || !page->objects.empty()) {
        Violation(std::string("left over: ") + leftover);
      }
    }
  }

  const uint64_t seed_;
  std::mt19937_64 random_;
  const std::shared_ptr<MemoryBucket> memory_;
  std::vector<std::shared_ptr<FaultBucket>> buckets_;
  std::atomic<int> running_ = 0, savers_running_ = 0;
  std::atomic<uint64_t> request_count_ = 0;
  std::vector<int64_t> own_steps_;  // acknowledged
  std::mutex mutex_;
  RaceCounts counts_;
  std::mutex trace_mutex_;
  std::vector<std::string> trace_;  // all parties' requests, in order
};

}  // namespace

RaceCounts RaceInBucket(uint64_t seed) { return BucketRound(seed).Execute(); }

}  // namespace holdfast
