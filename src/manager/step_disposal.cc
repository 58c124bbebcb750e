#include "manager/step_disposal.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <utility>

#include "base/clock.h"
#include "base/status_macros.h"
#include "checkpoint/commit/lease.h"
#include "checkpoint/commit/unfinished.h"
#include "holdfast/orbax/steps.h"
#include "place/directory_ops.h"
#include "place/look.h"
#include "steps/make_directories.h"
#include "steps/step_scan.h"
#include "storage/directory_lock.h"
#include "storage/url_path.h"

namespace holdfast {
namespace {

// Named as Orbax names directories that it moves: "20260131-235959-123456",
// local time.
std::string TimeText() {
  const int64_t now_ns = SystemNowNs();
  const auto seconds = static_cast<std::time_t>(now_ns / kNsASecond);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char text[48];
  const size_t size =
      std::strftime(text, sizeof(text), "%Y%m%d-%H%M%S-", &parts);
  char micros[8];
  std::snprintf(micros, sizeof(micros), "%06d",
                static_cast<int>(now_ns % kNsASecond / 1000));
  return std::string(text, size) + micros;
}

// In an object store: directories that a save or a removal has not finished.
std::vector<std::string> UncommittedLeases(const Place& root) {
  std::vector<std::string> paths;
  if (root.can_rename()) return paths;
  const LookScope scope(root);
  const auto names = ListDirectory(scope.place());
  if (!names.ok()) return paths;
  for (const std::string& name : *names) {
    const Place below = scope.place() / name;
    if (HasLease(below) && !HasCommitMarker(below)) {
      paths.push_back(below.path());
    }
  }
  return paths;
}

}  // namespace

StepDisposal::StepDisposal(DisposalOptions options)
    : options_(std::move(options)), remover_(options_.thread_count) {}

void StepDisposal::RemoveLeftovers() {
  const auto trash = ListTrash(options_.root);
  if (!trash.ok()) return;  // a root that cannot be read has said so elsewhere
  for (const TrashedStep& step : *trash) {
    // In the trash of an object store a step may just be on its way in.
    const bool must_go = Place(step.path).can_rename()
                             ? step.is_being_removed
                             : IsMarkedForDeletion(step.path);
    if (must_go) remover_.Remove(step.path);
  }
  for (const std::string& path : UncommittedLeases(options_.root)) {
    if (IsMarkedForDeletion(path)) remover_.Remove(path);
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
        ": refused, because none of the steps to keep exists any more");
  }
  if (!options_.in_background) return Move(names);
  remover_.Run([this, names] { return Move(names); });
  return Status();
}

Status StepDisposal::DisposeOf(const std::string& name) { return Move({name}); }

Status StepDisposal::Move(const std::vector<std::string>& names) {
  if (options_.todelete_full_path) {
    for (const std::string& name : names) {
      HF_RETURN_IF_ERROR(MoveInBucket(name));
    }
    return Status();
  }
  const bool can_rename = Place(options_.root).can_rename();
  if (options_.todelete_subdir && can_rename) {
    for (const std::string& name : names) {
      HF_RETURN_IF_ERROR(MoveAside(name));
    }
    return Status();
  }
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                      TrashSteps(options_.root, names, TrashUse::kRemove));
  for (const std::string& path : paths) remover_.Remove(path);
  if (!can_rename) {
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

Status StepDisposal::MoveAside(const std::string& name) {
  const std::string directory = options_.root + "/" + *options_.todelete_subdir;
  const std::string source = options_.root + "/" + name;
  HF_RETURN_IF_ERROR(MakeDirectories(directory, std::nullopt));
  const Result<DirectoryLock> lock = DirectoryLock::Take(source);
  const Status moved = lock.ok()
                           ? PublishDirectory(source, directory + "/" + name)
                           : lock.status();
  // Another process has deleted it.
  return moved.code() == StatusCode::kNotFound ? Status() : moved;
}

Status StepDisposal::MoveInBucket(const std::string& name) {
  const std::string& root = options_.root;
  const std::string bucket =
      root.substr(0, root.find('/', root.find("://") + 3));
  const Status moved = PublishDirectory(
      root + "/" + name,
      AbsolutePath(bucket + "/" + *options_.todelete_full_path + "/" + name +
                   "-" + TimeText()));
  // Another process has deleted it.
  return moved.code() == StatusCode::kNotFound ? Status() : moved;
}

}  // namespace holdfast
