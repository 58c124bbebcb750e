#include "manager/step_disposal.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "place/place.h"

namespace holdfast {

StepDisposal::StepDisposal(std::string root,
                           const CheckpointManagerOptions& options)
    : root_(std::move(root)),
      options_({options.todelete_subdir, options.todelete_full_path}),
      in_background_(options.enable_background_delete),
      committed_by_(options.committed_by),
      remover_(options.num_deletion_threads) {}

void StepDisposal::RemoveLeftovers() {
  for (std::string& path : DisposalLeftovers(root_)) {
    remover_.Remove(std::move(path));
  }
}

Status StepDisposal::Dispose(const std::vector<std::string>& names,
                             const std::vector<std::string>& staying) {
  if (names.empty()) return Status();
  const bool some_stay =
      std::any_of(staying.begin(), staying.end(), [&](const std::string& name) {
        return IsPathFinalized(root_ + "/" + name, committed_by_);
      });
  if (!some_stay) {
    return FailedPreconditionError(
        "delete old steps of " + root_ +
        ": refused, because none of the steps to keep exists any more");
  }
  if (!in_background_) return Move(names);
  remover_.Run([this, names] { return Move(names); });
  return Status();
}

Status StepDisposal::DisposeOf(const std::string& name) { return Move({name}); }

Status StepDisposal::Move(const std::vector<std::string>& names) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                      DisposeOfSteps(root_, names, options_));
  for (const std::string& path : paths) remover_.Remove(path);
  if (!Place(root_).can_rename() && !paths.empty()) {
    const std::lock_guard lock(mutex_);
    going_.insert(names.begin(), names.end());
  }
  return Status();
}

void StepDisposal::WaitFor(const std::string& name) {
  {
    const std::lock_guard lock(mutex_);
    if (!going_.contains(name)) return;
    going_.clear();
  }
  remover_.Drain();
}

}  // namespace holdfast
