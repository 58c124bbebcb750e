// Shows what a power loss could cost a program that saves checkpoints: records
// its changes to a directory, replays the states that a power loss at each
// moment may leave, and judges the checkpoints in these states.
//
//   auto proof = holdfast::ProveCrash({.command = {"python3", "save.py"}});
//   for (const holdfast::CrashRisk& risk : proof->risks) ...
//
// A checkpoint is the directory itself, a step of a root, or a file or
// directory below it that Open accepts. It counts as saved when the next one is
// begun, at a mark (CrashMark), or when the command ends. From then on it must
// be listed, load completely, and equal what the run had, until the run changes
// it; a checkpoint that is listed before it is saved must be complete, too.
// doc/prove-crash.md describes the model of the disk.
// Thread-safety: one call of ProveCrash at a time; no other thread may wait for
// the caller's child processes meanwhile. CrashMark: any thread. Ownership:
// none. Units: changes; states.
// Errors: Unimplemented (not Linux on x86-64 or aarch64, or no permission to
// trace), NotFound (no such command; no checkpoint below the directory at the
// end), FailedPrecondition (the command failed; the record is incomplete; the
// run's result cannot be loaded), Cancelled, those of the file system.
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
  // Run with HOLDFAST_PROVE_ROOT set; `{root}` in its words is replaced by the
  // directory.
  std::vector<std::string> command;
  // An existing directory on a file system; empty: a new one, removed at the
  // end.
  std::string root;
  // A shell command that judges a state instead; `{root}` in it is replaced by
  // the state's path (and HOLDFAST_PROVE_MARKS has the marks so far). Exit
  // status 0 means ok.
  std::string check;
  // Globs over paths below the directory ("." is the directory), as they are at
  // that time or at the end: syncs of these paths are ignored.
  std::vector<std::string> without_sync;
  uint64_t state_count_max = 20'000;  // beyond it, an even sample; 0: all
  uint64_t seed = 0;
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(uint64_t done, uint64_t total)> on_state;
};

enum class CrashProblem : uint8_t {
  kLost,     // was saved, and is no longer listed
  kDamaged,  // is listed, and cannot be loaded
  kWrong,    // loads, but differs from what was saved
  kCheck,    // the user's command failed
};
std::string_view CrashProblemName(CrashProblem problem);

struct MissingSync {
  std::string path;  // below the directory; STEP stands for the checkpoint's
  bool is_directory = false;
  bool comes_later = false;  // it is synced, but after that moment
};

// All states that have the same problem for the same reason.
struct CrashRisk {
  CrashProblem problem = CrashProblem::kLost;
  // The syncs that together would prevent it. Empty if no sync would, as the
  // state is wrong with nothing lost.
  std::vector<MissingSync> missing;
  uint64_t state_count = 0;
  // The first of these states.
  std::string checkpoint;  // its path below the directory
  std::string detail;      // why it does not load, ...
  std::string moment;      // "after 17 of 300 changes: rename of a to b"
  std::string loss;        // "data lost", ...
};

struct CrashProof {
  std::vector<CrashRisk> risks;  // those with the most states first
  uint64_t change_count = 0;
  uint64_t sync_count = 0;          // among the changes
  uint64_t dropped_sync_count = 0;  // by without_sync
  uint64_t state_count = 0;         // judged
  uint64_t bad_state_count = 0;
  uint64_t possible_state_count = 0;
  std::vector<std::string> checkpoints;  // at the end
  double record_seconds = 0;
  double judge_seconds = 0;
};

Result<CrashProof> ProveCrash(const ProveOptions& options);

// Tells a ProveCrash around this process that everything saved so far must last
// from now on. Costs one system call; otherwise does nothing.
void CrashMark(std::string_view text);

// A command that saves three steps with a Python library: "holdfast",
// "holdfast-manager", "orbax", "torch", "dcp", "safetensors", "numpy".
// InvalidArgument for any other name.
Result<std::vector<std::string>> ProveLibraryCommand(const std::string& python,
                                                     std::string_view library);

}  // namespace holdfast
