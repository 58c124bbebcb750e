// Shows what a program that saves checkpoints could lose in a power loss:
// records the program's changes to a directory, rebuilds the states that a
// power loss at each moment may leave, and judges the checkpoints in these
// states.
//
//   auto proof = holdfast::ProveCrash({.command = {"python3", "save.py"}});
//   for (const holdfast::CrashRisk& risk : proof->risks) ...
//
// A checkpoint is the directory itself, a step of a root, or a file or
// directory below it that Open accepts. It counts as saved when the next
// checkpoint is begun, at a mark (CrashMark), or when the command ends. From
// then on, until the run changes it, it must be listed, load completely, and
// equal what the run saved. A checkpoint that is listed before it counts as
// saved must be complete, too. doc/prove-crash.md describes the model of the
// disk.
//
// Thread-safety: one call of ProveCrash at a time, during which no other thread
// may wait for child processes. CrashMark: any thread.
// Ownership: none. Units: changes; states.
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
  // The program and its arguments, in which `{root}` is replaced by the
  // directory. It is run with the directory in HOLDFAST_PROVE_ROOT.
  std::vector<std::string> command;
  // An existing directory on a file system; empty: a new one, removed at the
  // end.
  std::string root;
  // A shell command that judges states instead; exit status 0 means ok.
  // `{root}` in it is replaced by the state's path, and HOLDFAST_PROVE_MARKS
  // has the marks so far.
  std::string check;
  // Syncs of paths that match these globs are ignored. A path is relative to
  // the directory, which is "."; it is the path at that time or at the end.
  std::vector<std::string> without_sync;
  uint64_t state_count_max = 20'000;  // beyond it, an even sample; 0: all
  uint64_t seed = 0;
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(uint64_t done, uint64_t total)> on_state;
};

enum class CrashProblem : uint8_t {
  kLost,     // was saved, and is no longer listed
  kDamaged,  // is listed, and cannot be loaded
  kWrong,    // loads, but differs from the saved values
  kCheck,    // the user's command failed
};
std::string_view CrashProblemName(CrashProblem problem);

struct MissingSync {
  std::string path;  // below the directory; STEP is the checkpoint's path
  bool is_directory = false;
  bool comes_later = false;  // the path is synced, but after that moment
};

// All states that have the same problem for the same reason.
struct CrashRisk {
  CrashProblem problem = CrashProblem::kLost;
  // The syncs that together would prevent the problem. Empty if no sync would,
  // because the state is wrong even if nothing is lost.
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

// Tells the ProveCrash that runs this process that everything saved so far must
// survive a power loss from now on. Does nothing otherwise, except for one
// system call.
void CrashMark(std::string_view text);

// Returns a command that saves three steps with a Python library: "holdfast",
// "holdfast-manager", "orbax", "torch", "dcp", "safetensors", "numpy".
// InvalidArgument for any other name.
Result<std::vector<std::string>> ProveLibraryCommand(const std::string& python,
                                                     std::string_view library);

}  // namespace holdfast
