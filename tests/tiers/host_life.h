// One life of a job whose hosts are processes. A host restores, saves some
// steps, and is killed, stopped or left to end. It records its progress in
// memory that the test can read.
//
// Thread-safety: LiveAsHost is called in a separate process with one thread.
// Errors: LiveAsHost returns those of TieredManager; the report has what the
// test must know about a process that has died.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/process_group.h"
#include "holdfast/tiers/tiered_manager.h"
#include "holdfast/tree.h"

namespace holdfast {

// A state of the job; steps of different lives are distinct.
struct Moment {
  int64_t life = -1;
  int64_t step = -1;
  bool is_none() const { return life < 0; }
  auto operator<=>(const Moment&) const = default;
};
Tree StateAt(const Moment& moment);

enum class Doom { kNone, kKill, kTear, kStop, kNoSpace };

// The kind of file that a change affects.
enum class Place { kAny, kData, kParity, kProtect, kRemove, kShared };

// The plan of a life, which is equal on all hosts.
struct Life {
  int64_t number = 0;
  std::vector<int64_t> hosts;  // by rank
  struct Fate {
    Doom doom = Doom::kNone;
    long at_change = 0;  // this process's changes at `place`, from 1
    Place place = Place::kAny;
  };
  std::vector<Fate> fates;  // by rank
  int64_t save_count = 1;
  int64_t shared_every = 0;
  int64_t data_shards = 14;
  double answer_seconds_max = 20;
  std::string root;

  bool Has(Doom doom) const {
    for (const Fate& fate : fates) {
      if (fate.doom == doom) return true;
    }
    return false;
  }
};
std::string HostPath(const Life& life, int64_t rank);
inline std::string RunPath(const std::string& host_path) {
  return host_path + "/run";
}

enum class Stage { kBegin, kRestore, kSave, kEnd };
// The report of one rank, in shared memory.
struct HostReport {
  std::atomic<Stage> stage{Stage::kBegin};
  std::atomic<Place> place{Place::kAny};  // of the change at which it fails
  std::atomic<long> change_count{0};
  std::atomic<int64_t> restored_life{-1};
  std::atomic<int64_t> restored_step{-1};
  std::atomic<bool> has_restored{false};  // or found nothing to restore
  std::atomic<bool> was_shared{false};
  std::atomic<bool> is_wrong{false};  // a value differed
  std::atomic<int64_t> protected_step{-1};
  std::atomic<int64_t> drained_step{-1};
  std::atomic<bool> has_failed{false};
  char error[1000] = {};

  Moment restored() const { return {restored_life, restored_step}; }
};

// Runs the complete life of one rank.
Status LiveAsHost(const Life& life, int64_t rank, ProcessGroup& group,
                  HostReport& report);

}  // namespace holdfast
