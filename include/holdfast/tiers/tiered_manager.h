// TieredManager: keeps the steps of a run on the disks (or in the memory) of
// its own hosts, with parity between them, and some of them on shared storage.
//
//   auto manager = TieredManager::Make(options, group.get());   // every rank
//   auto restored = (*manager)->Restore(read);   // the newest that verifies
//   for (int64_t step = ...) {
//     ...
//     (*manager)->Save(step, state);             // a background thread writes
//   }
//   (*manager)->Close();
//
// Each rank writes its part of a step into its own directory (a tmpfs, an NVMe
// disk). The ranks form groups of n + m. If up to m ranks of a group are lost
// with their directories, the step is rebuilt from the others, on however many
// ranks exist then. A step is protected when the parity of all groups is
// stored, and a restore from exactly these parts has been planned and found
// possible. The last protected step is never removed.
//
// At intervals a step is copied to the shared tier, in the background. There it
// is a plain checkpoint: a step of a root in the layout of CheckpointManager.
//
// Every byte has a checksum, which other ranks also have. A restore examines
// everything that remains, uses the newest step of which enough is intact, and
// rebuilds what is damaged or lost. It skips a step that cannot be rebuilt,
// saying why. There is no leader: all ranks make the same decisions from the
// same lists.
//
// A step that a later manager saved is newer, whatever its number; among one
// manager's steps, a higher number is newer. (Each Make takes a count one
// higher than any count in the existing steps.) So after a run went back to an
// earlier step, the steps that it abandoned are never restored in place of its
// new ones.
//
// Every rank makes the same calls in the same order. Only Make uses `group`;
// afterwards the ranks communicate over their own TCP connections, which are
// authenticated by a secret but not encrypted.
//
// Thread-safety: one thread at a time.
// Ownership: owns its threads; a tree passed to Save is borrowed until its
// elements are on the local tier.
// Units: bytes, seconds.
// Errors: InvalidArgument (options), FailedPrecondition (too few ranks for the
// parity), AlreadyExists (another process uses the directory), DeadlineExceeded
// and Unavailable naming the rank that does not answer, NotFound (there are no
// steps), DataLoss (there are steps, but none can be restored: the reason for
// each), those of Save.
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

// Directories used only by this rank.
struct LocalTierOptions {
  std::string directory;   // created if missing
  int64_t save_every = 1;  // steps; steps for the shared tier are saved, too
  int64_t max_to_keep = 1;
  // Limit on the size of all steps of the run in this directory; older steps
  // are removed. 0: no limit. The last protected step is kept, whatever its
  // size.
  uint64_t bytes_max = 0;
};

// A directory or URL shared by all ranks.
struct SharedTierOptions {
  std::string directory;   // "": no shared tier
  int64_t save_every = 0;  // steps; 0: no step is copied there
  // How many of the steps that this run's managers have copied there are kept.
  // Absent: all.
  std::optional<int64_t> max_to_keep;
  double bytes_per_second_max = 0;  // for this rank; 0: no limit
};

struct ParityOptions {
  int64_t data_shards = 7;    // n
  int64_t parity_shards = 1;  // m; 0: no parity. A single rank has none.
  // Ranks with the same name may be lost together, so they are put into
  // different groups. "": this machine's name.
  std::string failure_domain;
  uint64_t block_bytes = uint64_t{1} << 20;
  // Limits the rate at which this rank receives data during a save; 0: no
  // limit. A restore has no limit.
  double bytes_per_second_max = 0;
};

struct TieredManagerOptions {
  // Steps of other runs in the same directory are ignored and never changed.
  std::string run = "run";
  LocalTierOptions local;
  SharedTierOptions shared;
  ParityOptions parity;
  // The name of the tree's item in a step on the shared tier.
  std::string item = "default";
  // How trees are stored. Members about the complete checkpoint are ignored.
  SaveOptions save;
  // Where other ranks can reach this one; "": this machine's name.
  std::string host;
  std::string listen_address = "0.0.0.0";
  uint16_t port = 0;  // 0: any free port
  // How long to wait for the slowest other rank when all ranks meet, and for
  // one answer of another rank.
  double timeout_seconds = 600;
  double answer_seconds_max = 60;
  // Threads that move blocks while the program works. A restore, which the
  // program waits for, uses one thread per processor, and at least six.
  int peer_threads = 2;
  std::function<void(const std::string&)> warn;  // empty: no warnings
};

struct TieredSaveOptions {
  bool force = false;  // save even if the step is not due
  // Whether the step is copied to the shared tier. Absent:
  // SharedTierOptions::save_every decides.
  std::optional<bool> is_shared = std::nullopt;
  // More files for the step, from this rank: contents by path relative to the
  // step. A path may not be in the tree's directory, nor be a name that a
  // checkpoint uses itself. If two ranks give the same path, the contents must
  // be equal. Otherwise the save fails on all ranks with InvalidArgument.
  std::map<std::string, std::string> files;
  // Kept alive until the tree's memory is no longer needed.
  std::shared_ptr<const void> owner;
  // If not ok, this rank has no tree; the save fails with this status on all
  // ranks.
  Status failure;
};

// This rank's statistics.
struct TierStats {
  uint64_t data_bytes = 0;      // the rank's part of the last step
  uint64_t parity_bytes = 0;    // held for the last step
  uint64_t received_bytes = 0;  // for parity, since Make
  double write_seconds = 0;     // of the last step, to the local tier
  double protect_seconds = 0;   // from then until all ranks had their parity
  double drain_seconds = 0;     // for the last step copied to the shared tier
  uint64_t drained_bytes = 0;   // to the shared tier, since Make
};

// A step that can be read now.
struct TierRestore {
  int64_t step = 0;
  std::string source;                  // "local", "parity", "shared"
  std::string id;                      // different for every copy of the step
  std::vector<std::string> notes;      // steps that were skipped, and why
  std::vector<int64_t> rebuilt_ranks;  // ranks of the save: lost, and rebuilt
  uint64_t healed_block_count = 0;     // in damaged files, on all ranks
  uint64_t peer_bytes = 0;             // received by this rank to heal
  // May be read as long as the manager exists. Reads fetch data from other
  // ranks, so each rank must keep its manager until all ranks have finished
  // reading.
  std::shared_ptr<const Checkpoint> checkpoint;
};

struct TierStepInfo {
  int64_t step = 0;
  uint64_t epoch = 0;  // counts the managers that have saved
  bool is_local = false;
  bool is_protected = false;  // on the local tier
  bool is_shared = false;
};

class TieredManager {
 public:
  // Makes this rank's manager. `group` is null for a single process; it is
  // borrowed for the call.
  static Result<std::unique_ptr<TieredManager>> Make(
      const TieredManagerOptions& options, ProcessGroup* group);
  // Like Close, but drops errors.
  virtual ~TieredManager() = default;

  virtual bool ShouldSave(int64_t step) const = 0;
  // Begins a save and returns true; returns false if the step is not due. First
  // waits for the previous save; if that failed, returns its error instead of
  // saving.
  virtual Result<bool> Save(int64_t step, const Tree& tree,
                            const TieredSaveOptions& options = {}) = 0;
  // Waits until the last save is protected.
  virtual Status WaitProtected() = 0;
  // Like WaitProtected, but also waits for copies to the shared tier.
  virtual Status Wait() = 0;

  // Opens the newest step that can be verified, or the given step, on every
  // rank. Copies whose ids are in `skip` are ignored.
  virtual Result<TierRestore> Open(
      std::optional<int64_t> step = std::nullopt,
      const std::vector<std::string>& skip = {}) = 0;
  // Opens a step and calls `read`. If a step turns out to be damaged while it
  // is read, tries the next one, until `read` succeeds on all ranks.
  // InvalidArgument from `read` is taken as the caller's own error, and
  // returned.
  Result<TierRestore> Restore(
      const std::function<Status(const TierRestore&)>& read,
      std::optional<int64_t> step = std::nullopt);
  // Reads a small file of the most recently opened step.
  virtual Result<std::string> ReadFile(const std::string& path) = 0;
  // Returns ok if all ranks pass ok; otherwise, on every rank, the failure of
  // those that failed.
  virtual Status Agree(const Status& mine) = 0;

  // Returns the steps in this rank's directory and on the shared tier, newest
  // first.
  virtual Result<std::vector<TierStepInfo>> Steps() = 0;
  virtual TierStats stats() const = 0;
  virtual Status Close() = 0;
};

}  // namespace holdfast
