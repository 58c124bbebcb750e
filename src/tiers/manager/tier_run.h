// Shared by the parts of a TieredManager: options, this host's steps, the
// peers, who is in which parity group.
//
// Thread-safety: const members and what is guarded here from any thread; the
// parts are as they say.
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
  // The ranks meet about `options.run`: what they meet about must be the same
  // on all, and directories are not.
  TieredManagerOptions options;
  std::unique_ptr<LocalSteps> steps;
  std::unique_ptr<ServedSteps> served;
  std::unique_ptr<TierPeers> peers;
  int64_t parity_count = 0;
  std::vector<std::vector<int64_t>> groups;  // ranks; one each without parity
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

// A step on the local tier, of all ranks, with its parity. After a failure on
// any rank nothing of it is left here. `step` is the same on all.
Status SaveToLocalTier(TierRun& run, ProcessGroup& group, const TierStep& step,
                       const Tree& tree, const TieredSaveOptions& options);
// InvalidArgument for a file beside the tree that is not a plain path below the
// step, lies in the tree's directory, or has a name of the checkpoint's own.
Status CheckOwnFiles(const std::map<std::string, std::string>& files,
                     const std::string& item);
// Ok when a restore of what all ranks have written has been planned, and found
// possible; all ranks hear the same. `record`: of this rank's group; the parts
// have their names. `own_files`: beside the tree, of this rank.
Status CheckRestorable(TierRun& run, ProcessGroup& group, const TierMember& me,
                       const GroupRecord& record,
                       const std::map<std::string, std::string>& own_files);
// Removes what the options of the local tier do not keep.
Status RetireLocalSteps(TierRun& run);
// Ok when the file system has room for `byte_count` more, steps that may go
// being removed first; else ResourceExhausted.
Status MakeRoom(TierRun& run, uint64_t byte_count);

// --- The shared tier ---

struct SharedStep {
  TierStep step;  // epoch 0 and no save id: not of a TieredManager
  std::string name;
};
// Committed steps; oldest first. None when there is no shared tier.
Result<std::vector<SharedStep>> ListSharedSteps(
    const TieredManagerOptions& options);
// Copies a step of the local tier there.
Status CopyToSharedTier(TierRun& run, ProcessGroup& group,
                        const TierStep& step);
// Removes what the options of the shared tier do not keep; for rank 0.
Status RetireSharedSteps(const TierRun& run);

// --- Restoring ---

class StepFiles;

struct RecoveredStep {
  std::string why_not;  // it cannot be restored; else empty
  std::string item;
  std::vector<int64_t> rebuilt_ranks;
  uint64_t healed_block_count = 0;
  std::shared_ptr<StepFiles> files;
};
// Makes a step of the local tier whole again, if it can be. `inventory`: the
// members that each rank has, as all told all.
Result<RecoveredStep> RecoverStep(
    TierRun& run, ProcessGroup& group, const TierStep& step,
    const std::vector<std::vector<TierMember>>& inventory);

}  // namespace holdfast
