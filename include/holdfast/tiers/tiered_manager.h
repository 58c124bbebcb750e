// TieredManager: the steps of a run on the disks (or in the memory) of its own
// hosts, with parity between them, and now and then one on shared storage.
//
//   auto manager = TieredManager::Make(options, group.get());   // every rank
//   auto restored = (*manager)->Restore(read);   // the newest that verifies
//   for (int64_t step = ...) {
//     ...
//     (*manager)->Save(step, state);             // a background thread writes
//   }
//   (*manager)->Close();
//
// Each rank writes its part of a step into its own directory (a tmpfs, an
// NVMe disk). The ranks are in groups of n + m: any m ranks of a group may be
// lost, directories and all, and the step is made again from the others, on as
// many ranks as there are then. A step is protected when the parity of all
// groups is stored, and a restore of exactly these parts has been planned and
// found possible; the last protected step is never taken away. Every so often
// a step is copied from there to the shared tier, in the background: it is then
// a plain checkpoint, a step of a root as CheckpointManager knows it.
//
// Every byte has a checksum that other ranks know, too. A restore looks at all
// that is left, takes the newest step of which enough is whole, makes again
// what is damaged or lost, and skips a step that cannot be, in words. All ranks
// decide alike from the same lists; there is no leader.
//
// Which steps are newer: those saved by a later manager come first (each Make
// counts one up from the highest that anybody knows), then those of higher
// numbers. So a step of an abandoned timeline never wins.
//
// Every rank makes the same calls in the same order. Only Make uses `group`:
// afterwards the ranks talk over TCP connections of their own, which are
// authenticated by a secret and not encrypted.
// Thread-safety: one thread at a time. Ownership: owns its threads; a tree
// given to Save is borrowed until its elements are on the local tier. Units:
// bytes, seconds.
// Errors: InvalidArgument (options), FailedPrecondition (too few ranks for the
// parity), AlreadyExists (another process uses the directory),
// DeadlineExceeded and Unavailable naming the rank that does not answer,
// NotFound (there is no step), DataLoss (there are, and none can be restored:
// why of each), those of Save.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/process_group.h"
#include "holdfast/status.h"
#include "holdfast/tree.h"

namespace holdfast HOLDFAST_EXPORT {

// Directories of this rank only.
struct LocalTierOptions {
  std::string directory;   // made when absent
  int64_t save_every = 1;  // steps; a step of the shared tier is saved, too
  int64_t max_to_keep = 1;
  // The bound for all steps of the run here; older ones go. 0: no bound. The
  // last protected step stays, whatever its size.
  uint64_t bytes_max = 0;
};

// A directory or URL of all ranks.
struct SharedTierOptions {
  std::string directory;   // "": no shared tier
  int64_t save_every = 0;  // steps; 0: nothing is copied there
  // The newest of those that tiered managers of this run copied; none: all.
  std::optional<int64_t> max_to_keep;
  double bytes_per_second_max = 0;  // of this rank; 0: no bound
};

struct ParityOptions {
  int64_t data_shards = 7;    // n
  int64_t parity_shards = 1;  // m; 0: none. A single rank has none.
  // Ranks of one name may be lost together: they go into groups apart.
  // "": this machine's name.
  std::string failure_domain;
  uint64_t block_bytes = uint64_t{1} << 20;
  // That this rank receives for a save; 0: no bound. A restore has none.
  double bytes_per_second_max = 0;
};

struct TieredManagerOptions {
  // Steps of other runs in the same directory are neither seen nor touched.
  std::string run = "run";
  LocalTierOptions local;
  SharedTierOptions shared;
  ParityOptions parity;
  // The name of the tree in a step of the shared tier.
  std::string item = "default";
  // How trees are stored. Fields about the whole checkpoint are ignored.
  SaveOptions save;
  // Where other ranks reach this one; "": this machine's name.
  std::string host;
  std::string listen_address = "0.0.0.0";
  uint16_t port = 0;  // 0: any
  // For the slowest of the others at a meeting, and for one answer.
  double timeout_seconds = 600;
  double answer_seconds_max = 60;
  // That move blocks while the program works; a restore, which it waits for,
  // takes a thread a processor, and six at least.
  int thread_count = 2;
  std::function<void(const std::string&)> warn;  // empty: nobody is told
};

struct TieredSaveOptions {
  bool force = false;  // whatever `save_every` says
  // Whether it is copied to the shared tier; none: as `save_every` there says.
  std::optional<bool> is_shared = std::nullopt;
  // More files of the step, by paths relative to it; of this rank. Not in the
  // tree's directory, nor of names that a checkpoint has for itself; a path
  // that two ranks give has the same content on both. Otherwise the save fails
  // on all ranks with InvalidArgument.
  std::map<std::string, std::string> files;
  // Kept until the tree's memory is no longer needed.
  std::shared_ptr<const void> owner;
  // Not Ok: this rank has no tree. The save fails with it on all ranks.
  Status failure;
};

// Counts of this rank.
struct TierStats {
  uint64_t data_bytes = 0;      // its part of the last step
  uint64_t parity_bytes = 0;    // that it holds of the last step
  uint64_t received_bytes = 0;  // for parity, since Make
  double write_seconds = 0;     // of the last step, until it was on the tier
  double protect_seconds = 0;   // from then on, until all had their parity
  double drain_seconds = 0;     // of the last step copied to the shared tier
  uint64_t drained_bytes = 0;   // to the shared tier, since Make
};

// A step as it can be read now.
struct TierRestore {
  int64_t step = 0;
  std::string source;              // "local", "parity", "shared"
  std::string id;                  // tells this copy of the step from any other
  std::vector<std::string> notes;  // steps that were skipped, and why
  std::vector<int64_t> rebuilt_ranks;  // of the save: lost, and made again
  uint64_t healed_block_count = 0;     // of damaged files, on all ranks
  uint64_t peer_bytes = 0;             // that this rank received to heal
  // To be read while the manager lives, on each rank until all are ready.
  std::shared_ptr<const Checkpoint> checkpoint;
};

struct TierStepInfo {
  int64_t step = 0;
  uint64_t epoch = 0;  // counts the managers that saved
  bool is_local = false;
  bool is_protected = false;  // on the local tier
  bool is_shared = false;
};

class TieredManager {
 public:
  // `group`: null for one process; borrowed for the call.
  static Result<std::unique_ptr<TieredManager>> Make(
      const TieredManagerOptions& options, ProcessGroup* group);
  // As Close, but errors are lost.
  virtual ~TieredManager() = default;

  virtual bool ShouldSave(int64_t step) const = 0;
  // True when a save has begun: false when the step is not due. Waits for the
  // save before, whose error it returns in place of saving.
  virtual Result<bool> Save(int64_t step, const Tree& tree,
                            const TieredSaveOptions& options = {}) = 0;
  // Waits until the last save is protected.
  virtual Status WaitProtected() = 0;
  // Waits for copies to the shared tier, too.
  virtual Status Wait() = 0;

  // The newest step that verifies, or the given one, opened on every rank.
  // Copies whose ids are in `skip` are passed over.
  virtual Result<TierRestore> Open(
      std::optional<int64_t> step = std::nullopt,
      const std::vector<std::string>& skip = {}) = 0;
  // Opens, and calls `read`, until it succeeds on all ranks: a step that turns
  // out to be damaged while it is read is passed over for the next one. An
  // InvalidArgument of `read` is the caller's own, and returned.
  Result<TierRestore> Restore(
      const std::function<Status(const TierRestore&)>& read,
      std::optional<int64_t> step = std::nullopt);
  // A small file of the step that was opened last.
  virtual Result<std::string> ReadFile(const std::string& path) = 0;
  // Ok when all ranks bring Ok; else the failure of those that have one.
  virtual Status Agree(const Status& mine) = 0;

  // Newest first. The steps in this rank's directory and in the shared tier.
  virtual Result<std::vector<TierStepInfo>> Steps() = 0;
  virtual TierStats stats() const = 0;
  virtual Status Close() = 0;
};

}  // namespace HOLDFAST_EXPORT
