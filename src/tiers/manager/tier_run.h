// The state that the parts of a TieredManager share: options, this host's
// steps, the peers, each rank's parity group.
//
// Thread-safety: any thread may use const members, and members that `mutex`
// guards; the others are as safe as their types say.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "holdfast/tiers/tiered_manager.h"
#include "tiers/manager/local_steps.h"
#include "tiers/manager/rate_limit.h"
#include "tiers/manager/served_steps.h"
#include "tiers/manager/tier_peers.h"

namespace holdfast {

struct TierRun {
  // The ranks exchange messages under the name `options.run`, which must be the
  // same on all of them. Their directories may differ.
  TieredManagerOptions options;
  std::unique_ptr<LocalSteps> steps;
  std::unique_ptr<ServedSteps> served;
  std::unique_ptr<TierPeers> peers;
  int64_t parity_count = 0;
  std::vector<std::vector<int64_t>> groups;  // of one rank each without parity
  uint64_t epoch = 0;
  std::unique_ptr<RateLimit> parity_limit;
  std::unique_ptr<RateLimit> drain_limit;

  int64_t rank() const { return peers->rank(); }
  void Warn(const std::string& text) const {
    if (options.warn) options.warn(text);
  }

  mutable std::mutex mutex;
  std::set<TierStep> in_use;  // being copied to the shared tier
  TierStats stats;
};

// --- Saving ---

// Saves a step, with its parity, to the local tier of all ranks. After a
// failure on any rank, this rank's part is removed, unless it already has its
// final name. `step` must be the same on all ranks.
Status SaveToLocalTier(TierRun& run, ProcessGroup& group, const TierStep& step,
                       const Tree& tree, const TieredSaveOptions& options);
// Returns InvalidArgument for a file outside the tree whose path is not a plain
// path below the step, is in the tree's directory, or is a name that the
// checkpoint uses.
Status CheckOwnFiles(const std::map<std::string, std::string>& files,
                     const std::string& item);
// Plans a restore of what all ranks have written, and returns ok if it is
// possible. All ranks get the same result. `record` belongs to this rank's
// group; the parts must have their final names. `own_files` are this rank's
// files outside the tree.
Status CheckRestorable(TierRun& run, ProcessGroup& group, const TierMember& me,
                       const GroupRecord& record,
                       const std::map<std::string, std::string>& own_files);
// Removes steps that the local tier's options do not keep.
Status RetireLocalSteps(TierRun& run);
// Returns ok if the file system has room for `byte_count` more bytes, after
// removing steps that may be removed; otherwise ResourceExhausted.
Status MakeRoom(TierRun& run, uint64_t byte_count);

// --- The shared tier ---

struct SharedStep {
  TierStep step;  // epoch 0, no save id: by another program
  std::string name;
};
// Returns the committed steps, oldest first; none if there is no shared tier.
Result<std::vector<SharedStep>> ListSharedSteps(
    const TieredManagerOptions& options);
// Copies a step of the local tier to the shared tier.
Status CopyToSharedTier(TierRun& run, ProcessGroup& group,
                        const TierStep& step);
// Removes steps that the shared tier's options do not keep. Only rank 0 calls
// this.
Status RetireSharedSteps(const TierRun& run);

// --- Restoring ---

class StepFiles;

struct RecoveredStep {
  std::string why_not;  // why it cannot be restored; empty if it can
  std::string item;
  std::vector<int64_t> rebuilt_ranks;
  uint64_t healed_block_count = 0;
  std::shared_ptr<StepFiles> files;
};
// Rebuilds a step of the local tier, if possible. `inventory` lists the members
// that each rank has; all ranks have exchanged it.
Result<RecoveredStep> RecoverStep(
    TierRun& run, ProcessGroup& group, const TierStep& step,
    const std::vector<std::vector<TierMember>>& inventory);

}  // namespace holdfast
