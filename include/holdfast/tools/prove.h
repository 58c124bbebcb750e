// Shows what a power loss could cost a program that saves: its changes to a
// directory are recorded, the states that a power loss may leave at each moment
// are replayed, and the checkpoints that are left are judged.
//
//   auto proof = holdfast::ProveCrash({.command = {"python3", "save.py"}});
//   for (const holdfast::CrashRisk& risk : proof->risks) ...
//
// A checkpoint is the directory itself, a step of a root, or a file or
// directory below it that Open takes. It counts as saved when the next one is
// begun, at a mark (CrashMark), or when the command ends. From then on it must
// be listed, load whole, and be equal to what the run had, until the run
// changes it; what is listed and not saved yet must be whole, too.
// doc/prove-crash.md has the model of the disk. Thread-safety: one call of
// ProveCrash at a time; no other thread may wait for the caller's children
// meanwhile. CrashMark: any thread. Ownership: none. Units: changes; states.
// Errors: Unimplemented (not Linux on x86-64 or aarch64, or no leave to trace),
// NotFound (no such command; no checkpoint below the directory at the end),
// FailedPrecondition (the command failed; the record is not complete; what the
// run left cannot be loaded), Cancelled, those of the file system.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

struct ProveOptions {
  // Run with HOLDFAST_PROVE_ROOT; `{root}` in its words is the directory.
  std::vector<std::string> command;
  // An existing directory on a file system; empty: a new one, removed later.
  std::string root;
  // A command of the shell that judges a state instead, with its path for
  // `{root}` (and HOLDFAST_PROVE_MARKS, the marks so far): 0 is fine.
  std::string check;
  // Globs over paths below the directory ("." is itself), as they are at the
  // time or in the end: their syncs are taken for not made.
  std::vector<std::string> without_sync;
  uint64_t state_count_max = 20'000;  // beyond it an even sample; 0: all
  uint64_t seed = 0;
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(uint64_t done, uint64_t total)> on_state;
};

enum class CrashProblem : uint8_t {
  kLost,     // was saved, and is not listed any more
  kDamaged,  // is listed, and cannot be loaded
  kWrong,    // loads, and is not what was saved
  kCheck,    // the user's command says so
};
std::string_view CrashProblemName(CrashProblem problem);

struct MissingSync {
  std::string path;  // below the directory; STEP: that of the checkpoint
  bool is_directory = false;
  bool comes_later = false;  // it is synced, but after the moment
};

// All states that have one problem for one reason.
struct CrashRisk {
  CrashProblem problem = CrashProblem::kLost;
  // Those that would prevent it together; empty: no sync does, as the state is
  // wrong with nothing lost.
  std::vector<MissingSync> missing;
  uint64_t state_count = 0;
  // The first of them.
  std::string checkpoint;  // its path below the directory
  std::string detail;      // why it does not load, ...
  std::string moment;      // "after 17 of 300 changes: rename of a to b"
  std::string loss;        // "data lost", ...
};

struct CrashProof {
  std::vector<CrashRisk> risks;  // the most states first
  uint64_t change_count = 0;
  uint64_t sync_count = 0;          // of the changes
  uint64_t dropped_sync_count = 0;  // by without_sync
  uint64_t state_count = 0;         // judged
  uint64_t bad_state_count = 0;
  uint64_t possible_state_count = 0;
  std::vector<std::string> checkpoints;  // at the end
  double record_seconds = 0;
  double judge_seconds = 0;
};

Result<CrashProof> ProveCrash(const ProveOptions& options);

// Says, to a ProveCrash around this process, that what was saved so far must
// last from now on. Costs one system call; does nothing elsewhere.
void CrashMark(std::string_view text);

// A command that saves three steps with a library of Python: "holdfast",
// "holdfast-manager", "orbax", "torch", "dcp", "safetensors", "numpy".
// InvalidArgument for another one.
Result<std::vector<std::string>> ProveLibraryCommand(const std::string& python,
                                                     std::string_view library);

}  // namespace holdfast
