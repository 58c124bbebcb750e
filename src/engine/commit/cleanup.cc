// Implements holdfast/detail/commit.h.
#include <algorithm>
#include <optional>

#include "engine/commit/layout.h"
#include "engine/commit/lease.h"
#include "engine/commit/unfinished.h"
#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"
#include "holdfast/detail/commit.h"
#include "stores/place/directory_ops.h"
#include "stores/place/look.h"
#include "stores/place/server_checks.h"
#include "stores/storage/directory_lock.h"

namespace holdfast {
namespace {

Result<bool> IsDirectoryItself(const Place& place) {
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(place));
  return kind == PathKind::kDirectory;
}

// Removes a leftover in an object store. Taking its lease makes a saver that
// still writes there notice that its save is over. A checkpoint that was
// committed just now stays.
Status RemoveLeased(const Place& place, CleanupResult& result) {
  HF_ASSIGN_OR_RETURN(SaveLease lease, SaveLease::Take(place));
  if (HasCommitMarker(place)) return lease.Release();
  HF_RETURN_IF_ERROR(lease.BeginCommit());
  HF_RETURN_IF_ERROR(AbortUploadsBelow(place));
  HF_RETURN_IF_ERROR(RemoveTree(place, [&] { return lease.KeepCommitting(); }));
  result.removed.push_back(place.path());
  return Status();
}

Status Recover(const Place& replaced, const Place& final_place,
               CleanupResult& result) {
  std::optional<SaveLease> lease;
  MayGoOn keeps_lease;
  // The lease of the final path keeps a new save away until the end.
  if (!final_place.can_rename()) {
    HF_ASSIGN_OR_RETURN(lease, SaveLease::Take(final_place));
    HF_RETURN_IF_ERROR(lease->BeginCommit());
    HF_RETURN_IF_ERROR(AbortUploadsBelow(final_place));
    keeps_lease = [&] { return lease->KeepCommitting(); };
  }
  HF_ASSIGN_OR_RETURN(const Recovery recovery,
                      RecoverReplaced(final_place, keeps_lease));
  if (lease) (void)lease->Release();
  if (recovery == Recovery::kRestored) {
    result.restored.push_back(final_place.path());
  }
  if (recovery == Recovery::kRemoved) result.removed.push_back(replaced.path());
  return Status();
}

bool IsLeftover(const Place& place, CommitMode mode) {
  return IsTemporaryName(place.name()) ||
         (HasLease(place) && !HasCommitMarker(place)) ||
         (ResolvedCommitMode(place, mode) == CommitMode::kMarkerFile &&
          IsBegunOnly(place));
}

// Removes a leftover that no process has locked. Checks again under the lock,
// because the save may have committed in the meantime.
Status RemoveUnlocked(const Place& place, CommitMode mode,
                      CleanupResult& result) {
  HF_ASSIGN_OR_RETURN(DirectoryLock lock, DirectoryLock::Take(place.path()));
  if (!IsLeftover(place, mode)) return Status();
  HF_RETURN_IF_ERROR(lock.Remove(place.path()));
  result.removed.push_back(place.path());
  return Status();
}

Status Clean(const Place& place, CommitMode mode, CleanupResult& result) {
  if (const auto final_name = NameOfReplaced(place.name())) {
    return Recover(place, place.parent() / *final_name, result);
  }
  if (!IsLeftover(place, mode)) return Status();
  return place.can_rename() ? RemoveUnlocked(place, mode, result)
                            : RemoveLeased(place, result);
}

// Returns the directories that may be leftovers. In an object store, one
// listing decides this; all later steps check again.
Result<std::vector<std::string>> Candidates(const Place& root,
                                            CommitMode mode) {
  const LookScope scope(root);
  HF_ASSIGN_OR_RETURN(std::vector<std::string> names,
                      ListDirectory(scope.place()));
  std::vector<std::string> candidates;
  for (std::string& name : names) {
    const Place below = scope.place() / name;
    HF_ASSIGN_OR_RETURN(const bool is_directory, IsDirectoryItself(below));
    if (!is_directory) continue;
    if (!NameOfReplaced(name) && !IsLeftover(below, mode)) continue;
    candidates.push_back(std::move(name));
  }
  if (root.can_rename()) return candidates;
  // Handle checkpoints that were put aside first, because their directories are
  // leftovers too.
  std::stable_partition(
      candidates.begin(), candidates.end(),
      [](const std::string& name) { return NameOfReplaced(name).has_value(); });
  return candidates;
}

class HeldLock : public SaveLock {
 public:
  explicit HeldLock(DirectoryLock lock) : lock_(std::move(lock)) {}
  void Release() override { lock_.Unlock(); }

 private:
  DirectoryLock lock_;
};

}  // namespace

Result<bool> IsTemporaryCheckpoint(const std::string& path, CommitMode mode) {
  const Place place = Place(path).Absolute();
  HF_ASSIGN_OR_RETURN(const bool is_directory, IsDirectoryItself(place));
  return is_directory && !IsFinishedStep(place, mode);
}

Result<bool> IsCheckpointFinalized(const std::string& path, CommitMode mode) {
  const Place place = Place(path).Absolute();
  HF_ASSIGN_OR_RETURN(const bool is_directory, IsDirectoryItself(place));
  return is_directory && IsFinishedStep(place, mode);
}

Result<std::unique_ptr<SaveLock>> SaveLock::Take(const std::string& path) {
  const Place place = Place(path).Absolute();
  DirectoryLock lock;
  if (place.can_rename()) {
    HF_ASSIGN_OR_RETURN(lock, DirectoryLock::Take(place.path()));
  }
  return std::unique_ptr<SaveLock>(std::make_unique<HeldLock>(std::move(lock)));
}

void BringBackCheckpoint(const std::string& path) {
  BringBack(Place(path).Absolute());
}

Result<bool> RemoveUnused(const std::string& path) {
  const Place place = Place(path).Absolute();
  if (!place.can_rename()) {
    CleanupResult result;
    HF_RETURN_IF_ERROR(RemoveLeased(place, result));
    return !result.removed.empty();
  }
  Result<DirectoryLock> lock = DirectoryLock::Take(place.path());
  if (lock.status().code() == StatusCode::kAlreadyExists) return false;
  if (lock.status().code() == StatusCode::kNotFound) return true;
  HF_RETURN_IF_ERROR(lock.status());
  HF_RETURN_IF_ERROR(lock->Remove(place.path()));
  return true;
}

Result<CleanupResult> CleanupTemporaryPaths(const std::string& root,
                                            CommitMode mode) {
  const Place place = Place(root).Absolute();
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      Candidates(place, mode));
  CleanupResult result;
  for (const std::string& name : names) {
    const Status cleaned = Clean(place / name, mode, result);
    switch (cleaned.code()) {
      case StatusCode::kOk:
      case StatusCode::kNotFound:            // another process was faster
      case StatusCode::kFailedPrecondition:  // not for us to decide
        break;
      case StatusCode::kAlreadyExists:
        result.in_use.push_back((place / name).path());
        break;
      default:
        return cleaned;
    }
  }
  return result;
}

}  // namespace holdfast
