#include "orbax/manager/step_disposal.h"

#include <algorithm>
#include <utility>

#include "ground/base/status_macros.h"
#include "stores/place/place.h"

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
  std::vector<std::string> all = names;
  {
    const std::lock_guard lock(mutex_);
    all.insert(all.end(), needed_.begin(), needed_.end());
  }
  HF_ASSIGN_OR_RETURN(const DisposedSteps disposed,
                      DisposeOfSteps(root_, all, options_));
  for (const std::string& path : disposed.to_remove) remover_.Remove(path);
  const std::lock_guard lock(mutex_);
  needed_ = {disposed.needed.begin(), disposed.needed.end()};
  if (!Place(root_).can_rename() && !disposed.to_remove.empty()) {
    going_.insert(all.begin(), all.end());
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
