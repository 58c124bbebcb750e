// Which states of a disk a power loss may leave, enumerated from a record of
// changes: each prefix of the record, under each kind of loss.
//
// Pure and deterministic: the same record and seeds give the same states.
// Thread-safety: values. Units: bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "crash/disk_model.h"

namespace holdfast {

struct DiskRecord {
  DiskState start;  // all of it safe
  std::vector<DiskChange> changes;
};

enum class Loss : uint8_t {
  kNothing,   // the process died, the machine did not
  kData,      // written bytes that were not synced
  kNames,     // names whose directory was not synced
  kUnsynced,  // both
  kSome,      // by seed: any of what was not synced, or parts of it
  kTorn512,   // the last write stops at a multiple of 512 bytes
  kTorn4096,  // ... of 4 KiB
};
std::string_view LossName(Loss loss);

// What is left of the changes that `model` holds as not safe.
DiskState StateAfter(const DiskModel& model, Loss loss, uint64_t seed);

struct CrashState {
  size_t prefix = 0;  // how many changes were made
  Loss loss = Loss::kNothing;
  uint64_t seed = 0;
};
// "after 17 of 300 changes (write), kSome, seed 3"
std::string Describe(const CrashState& crash, const DiskRecord& record);

// Calls `visit` with every prefix (none and all included) under every loss,
// kSome with `seed_count` seeds; torn writes only after writes.
// Returns how many states there were.
uint64_t VisitCrashStates(
    const DiskRecord& record, uint64_t seed_count,
    const std::function<void(const CrashState&, const DiskState&)>& visit);

// The same for `count` states with a random prefix and random losses.
uint64_t VisitRandomStates(
    const DiskRecord& record, uint64_t first_seed, uint64_t count,
    const std::function<void(const CrashState&, const DiskState&)>& visit);

}  // namespace holdfast
