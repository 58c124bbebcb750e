// Removes the steps that are not kept from a root.
#include <cstdio>
#include <ctime>

#include "engine/commit/lease.h"
#include "engine/commit/unfinished.h"
#include "engine/references/reference_lock.h"
#include "engine/references/referrers.h"
#include "engine/steps/step_scan.h"
#include "ground/base/clock.h"
#include "ground/base/status_macros.h"
#include "holdfast/steps/steps.h"
#include "stores/place/directory_ops.h"
#include "stores/place/look.h"
#include "stores/place/make_directories.h"
#include "stores/storage/directory_lock.h"
#include "stores/storage/url_path.h"

namespace holdfast {
namespace {

// Returns the time in UTC, in Orbax's format for names of directories that it
// moves: "20260131-235959-123456".
std::string TimeText() {
  const int64_t now_ns = SystemNowNs();
  const auto seconds = static_cast<std::time_t>(now_ns / kNsASecond);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[48];
  const size_t size =
      std::strftime(text, sizeof(text), "%Y%m%d-%H%M%S-", &parts);
  char micros[8];
  std::snprintf(micros, sizeof(micros), "%06d",
                static_cast<int>(now_ns % kNsASecond / 1000));
  return std::string(text, size) + micros;
}

// Moves a step. Also ok if another process has deleted it.
Status MoveStep(const Place& source, const Place& target) {
  DirectoryLock lock;  // a save that writes there must not lose the step
  if (source.can_rename()) {
    Result<DirectoryLock> taken = DirectoryLock::Take(source.path());
    if (taken.status().code() == StatusCode::kNotFound) return Status();
    HF_ASSIGN_OR_RETURN(lock, std::move(taken));
  }
  const Status moved = PublishDirectory(source, target);
  return moved.code() == StatusCode::kNotFound ? Status() : moved;
}

Status MoveToSubdirectory(const Place& root,
                          const std::vector<std::string>& names,
                          const std::string& subdirectory) {
  const Place target = root / subdirectory;
  HF_RETURN_IF_ERROR(MakeDirectories(target.path(), std::nullopt));
  for (const std::string& name : names) {
    HF_RETURN_IF_ERROR(MoveStep(root / name, target / name));
  }
  return Status();
}

Status MoveInBucket(const Place& root, const std::vector<std::string>& names,
                    const std::string& directory) {
  if (root.can_rename()) {
    return UnimplementedError(
        "todelete_full_path: only where steps are in an object store");
  }
  const std::string& path = root.path();
  const std::string bucket =
      path.substr(0, path.find('/', path.find("://") + 3));
  for (const std::string& name : names) {
    const std::string target =
        bucket + "/" + directory + "/" + name + "-" + TimeText();
    HF_RETURN_IF_ERROR(MoveStep(root / name, Place(AbsolutePath(target))));
  }
  return Status();
}

// Returns the directories of unfinished saves and removals in an object store.
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

Result<DisposedSteps> DisposeOfSteps(const std::string& root,
                                     const std::vector<std::string>& given,
                                     const DisposalOptions& options) {
  const Place at = Place(root).Absolute();
  std::vector<std::string> names = given;
  DisposedSteps disposed;
  // Links to steps belong to a user, and their purpose is unknown.
  std::erase_if(names, [&](const std::string& name) {
    const auto kind = GetPathKind(at / name);
    return kind.ok() && *kind == PathKind::kSymlink;
  });
  // Held until the steps have left their names, so that no delta based on one
  // of them is committed after the check.
  const ReferenceLock lock(at);
  HF_ASSIGN_OR_RETURN(const auto needed, NeededByOthers(at, given));
  for (const auto& [name, by] : needed) {
    std::erase(names, name);
    disposed.needed.push_back(name);
  }
  // In this order, an interruption leaves no delta without its base.
  names = ReferrersFirst(at, names);
  if (options.todelete_full_path) {
    HF_RETURN_IF_ERROR(MoveInBucket(at, names, *options.todelete_full_path));
    return disposed;
  }
  if (options.todelete_subdir && UrlScheme(at.path()) != "gs") {
    HF_RETURN_IF_ERROR(MoveToSubdirectory(at, names, *options.todelete_subdir));
    return disposed;
  }
  HF_ASSIGN_OR_RETURN(disposed.to_remove,
                      TrashSteps(at.path(), names, TrashUse::kRemove));
  return disposed;
}

std::vector<std::string> DisposalLeftovers(const std::string& root) {
  std::vector<std::string> left;
  const auto trash = ListTrash(root);
  // A root that cannot be read is reported elsewhere.
  if (!trash.ok()) return left;
  for (const TrashedStep& step : *trash) {
    // In the trash of an object store, a step may still be on its way in.
    const bool must_go = Place(step.path).can_rename()
                             ? step.is_being_removed
                             : IsMarkedForDeletion(Place(step.path));
    if (must_go) left.push_back(step.path);
  }
  for (const std::string& path : UncommittedLeases(Place(root))) {
    if (IsMarkedForDeletion(Place(path))) left.push_back(path);
  }
  return left;
}

}  // namespace holdfast
