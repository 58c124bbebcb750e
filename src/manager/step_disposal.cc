#include "manager/step_disposal.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "holdfast/steps.h"
#include "steps/make_directories.h"
#include "place/directory_ops.h"

namespace holdfast {

StepDisposal::StepDisposal(DisposalOptions options)
    : options_(std::move(options)), remover_(options_.thread_count) {}

void StepDisposal::RemoveLeftovers() {
  const auto trash = ListTrash(options_.root);
  if (!trash.ok()) return;  // a root that cannot be read has said so elsewhere
  for (const TrashedStep& step : *trash) {
    if (step.is_being_removed) remover_.Remove(step.path);
  }
}

Status StepDisposal::Dispose(const std::vector<std::string>& names,
                             const std::vector<std::string>& staying) {
  if (names.empty()) return Status();
  const bool some_stay =
      std::any_of(staying.begin(), staying.end(), [&](const std::string& name) {
        return IsPathFinalized(options_.root + "/" + name,
                               options_.committed_by);
      });
  if (!some_stay) {
    return FailedPreconditionError(
        "delete old steps of " + options_.root +
        ": refused, because none of those that stay is there any more");
  }
  if (!options_.in_background) return Move(names);
  remover_.Run([this, names] { return Move(names); });
  return Status();
}

Status StepDisposal::DisposeOf(const std::string& name) { return Move({name}); }

Status StepDisposal::Move(const std::vector<std::string>& names) {
  if (options_.todelete_subdir) {
    for (const std::string& name : names) {
      HF_RETURN_IF_ERROR(MoveAside(name));
    }
    return Status();
  }
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                      TrashSteps(options_.root, names, TrashUse::kRemove));
  for (const std::string& path : paths) remover_.Remove(path);
  return Status();
}

Status StepDisposal::MoveAside(const std::string& name) {
  const std::string directory = options_.root + "/" + *options_.todelete_subdir;
  HF_RETURN_IF_ERROR(MakeDirectories(directory, std::nullopt));
  const Status moved =
      PublishDirectory(options_.root + "/" + name, directory + "/" + name);
  // Somebody else has deleted it.
  return moved.code() == StatusCode::kNotFound ? Status() : moved;
}

}  // namespace holdfast
