// StepDisposal: how steps leave a root: into the trash and from there away, or
// into a directory of the user's where they stay.
//
// Thread-safety: any thread. Ownership: owns the threads that remove.
// Errors: FailedPrecondition when nothing would stay; those of the file system.
// Errors of removals are told by TakeError.
#pragma once

#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "holdfast/orbax/step_names.h"
#include "holdfast/status.h"
#include "manager/step_remover.h"

namespace holdfast {

struct DisposalOptions {
  std::string root;  // absolute
  // Ignored in object stores, as in Orbax: steps are removed there.
  std::optional<std::string> todelete_subdir;
  // For object stores: steps go there, in their bucket, under names with the
  // time.
  std::optional<std::string> todelete_full_path;
  bool in_background = false;  // the renames, too
  int thread_count = 1;
  CommittedBy committed_by;
};

class StepDisposal {
 public:
  explicit StepDisposal(DisposalOptions options);

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
  Status MoveAside(const std::string& name);
  Status MoveInBucket(const std::string& name);

  const DisposalOptions options_;
  StepRemover remover_;
  std::mutex mutex_;
  std::set<std::string> going_;  // names of steps that may still be removed
};

}  // namespace holdfast
