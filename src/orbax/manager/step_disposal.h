// StepDisposal: removes steps from the root of a manager (DisposeOfSteps), and
// owns the threads that delete their files.
//
// Thread-safety: any thread. Ownership: owns the threads that delete.
// Errors: FailedPrecondition if no step would remain; those of the file system.
// TakeError reports the errors of deletions.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "holdfast/orbax/checkpoint_manager.h"
#include "holdfast/status.h"
#include "holdfast/steps/step_names.h"
#include "holdfast/steps/steps.h"
#include "orbax/manager/step_remover.h"

namespace holdfast {

class StepDisposal {
 public:
  // `root` must be absolute.
  StepDisposal(std::string root, const CheckpointManagerOptions& options);

  // Removes what crashed managers left in the trash.
  void RemoveLeftovers();
  // Removes the steps with these names, after checking that at least one of
  // `staying` exists.
  Status Dispose(const std::vector<std::string>& names,
                 const std::vector<std::string>& staying);
  // Removes the step with this name, even if no other step remains.
  Status DisposeOf(const std::string& name);
  // Waits until no earlier step with this name is being removed. Must be called
  // before such a step is saved: in an object store, the earlier step is
  // removed under the same name.
  void WaitFor(const std::string& name);
  void Finish() { remover_.Finish(); }
  Status TakeError() { return remover_.TakeError(); }

 private:
  Status Move(const std::vector<std::string>& names);

  const std::string root_;
  const DisposalOptions options_;
  const bool in_background_;  // renames happen in the background, too
  const CommittedBy committed_by_;
  StepRemover remover_;
  std::mutex mutex_;
  std::set<std::string> going_;  // names of steps that may still be removed
  // Removed steps that a view or a delta still needs.
  std::set<std::string> needed_;
};

}  // namespace holdfast
