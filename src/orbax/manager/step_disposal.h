// StepDisposal: how the steps of a manager leave its root (DisposeOfSteps), and
// the threads that remove their files.
//
// Thread-safety: any thread. Ownership: owns the threads that remove.
// Errors: FailedPrecondition when nothing would stay; those of the file system.
// Errors of removals are told by TakeError.
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
  // `root` is absolute.
  StepDisposal(std::string root, const CheckpointManagerOptions& options);

  // Removes what crashed managers left in the trash.
  void RemoveLeftovers();
  // Removes the steps of these names, once one of `staying` is seen to be
  // there.
  Status Dispose(const std::vector<std::string>& names,
                 const std::vector<std::string>& staying);
  // Removes the step of this name, whatever stays.
  Status DisposeOf(const std::string& name);
  // Call it before a step of this name is saved: in an object store its
  // predecessor is removed under its own name.
  void WaitFor(const std::string& name);
  void Finish() { remover_.Finish(); }
  Status TakeError() { return remover_.TakeError(); }

 private:
  Status Move(const std::vector<std::string>& names);

  const std::string root_;
  const DisposalOptions options_;
  const bool in_background_;  // the renames, too
  const CommittedBy committed_by_;
  StepRemover remover_;
  std::mutex mutex_;
  std::set<std::string> going_;  // names of steps that may still be removed
  // Steps that went, but which a view or a delta still refers to.
  std::set<std::string> needed_;
};

}  // namespace holdfast
