// Enumerates the disk states that a power loss may leave: each prefix of a
// record of changes, under each kind of loss.
//
// Pure and deterministic: the same record and seeds give the same states.
// Thread-safety: values. Units: bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tools/powerloss/disk_model.h"

namespace holdfast {

struct DiskRecord {
  DiskState start;  // all of it is safe
  std::vector<DiskChange> changes;
};

enum class Loss : uint8_t {
  kNothing,   // the process died, but the machine did not
  kData,      // written bytes that were not synced
  kNames,     // names whose directory was not synced
  kUnsynced,  // both of the above
  kSome,      // any unsynced changes, or parts of them, chosen by the seed
  kTorn512,   // the last write stops at a multiple of 512 bytes
  kTorn4096,  // ... or of 4 KiB
};
std::string_view LossName(Loss loss);

// Returns true if the pending change at `index` survives every loss.
using KeptFn = std::function<bool(size_t index)>;
// Returns the state after `loss`, which decides about the changes that are not
// safe in `model`. `kept` exempts changes from the loss.
DiskState StateAfter(const DiskModel& model, Loss loss, uint64_t seed,
                     const KeptFn& kept = {});

struct CrashState {
  size_t prefix = 0;  // how many changes were made
  Loss loss = Loss::kNothing;
  uint64_t seed = 0;
};
// Returns "after 17 of 300 changes (write), kSome, seed 3", for example.
std::string Describe(const CrashState& crash, const DiskRecord& record);

struct StateChoice {
  uint64_t seed_count = 0;  // variants of kSome for each prefix
  uint64_t first_seed = 0;
  // Selects the states to visit; empty selects all.
  std::function<bool(const CrashState&)> wanted = {};
};
// Calls `visit` with every prefix (from empty to complete) under every loss;
// torn writes only after writes. Returns the number of states.
uint64_t VisitCrashStates(
    const DiskRecord& record, const StateChoice& choice,
    const std::function<void(const CrashState&, const DiskModel&)>& visit);

}  // namespace holdfast
