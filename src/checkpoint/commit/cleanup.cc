// The functions of holdfast/tools/commit.h.
#include <algorithm>
#include <optional>

#include "base/status_macros.h"
#include "checkpoint/commit/layout.h"
#include "checkpoint/commit/lease.h"
#include "checkpoint/commit/unfinished.h"
#include "checkpoint/format/directory_names.h"
#include "holdfast/tools/commit.h"
#include "place/directory_ops.h"
#include "place/look.h"
#include "place/server_checks.h"
#include "storage/directory_lock.h"
#include "storage/url_path.h"

namespace holdfast {
namespace {

Result<bool> IsDirectoryItself(const std::string& path) {
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(path));
  return kind == PathKind::kDirectory;
}

// A saver that still writes there sees that its save is over; a checkpoint that
// was committed just now stays.
Status RemoveLeased(const std::string& path, CleanupResult& result) {
  HF_ASSIGN_OR_RETURN(SaveLease lease, SaveLease::Take(path));
  if (HasCommitMarker(path)) return lease.Release();
  HF_RETURN_IF_ERROR(lease.BeginCommit());
  HF_RETURN_IF_ERROR(AbortUploadsBelow(path));
  HF_RETURN_IF_ERROR(RemoveTree(path, [&] { return lease.KeepCommitting(); }));
  result.removed.push_back(path);
  return Status();
}

Status Recover(const std::string& root, const std::string& name,
               const std::string& final_name, CleanupResult& result) {
  const std::string final_path = root + "/" + final_name;
  std::optional<SaveLease> lease;
  MayGoOn keeps_lease;
  // The lease of the final path keeps a new save away meanwhile.
  if (IsUrl(final_path)) {
    HF_ASSIGN_OR_RETURN(lease, SaveLease::Take(final_path));
    HF_RETURN_IF_ERROR(lease->BeginCommit());
    HF_RETURN_IF_ERROR(AbortUploadsBelow(final_path));
    keeps_lease = [&] { return lease->KeepCommitting(); };
  }
  HF_ASSIGN_OR_RETURN(const Recovery recovery,
                      RecoverReplaced(final_path, keeps_lease));
  if (lease) (void)lease->Release();
  if (recovery == Recovery::kRestored) result.restored.push_back(final_path);
  if (recovery == Recovery::kRemoved) {
    result.removed.push_back(root + "/" + name);
  }
  return Status();
}

bool IsLeftover(const std::string& path, const std::string& name,
                CommitMode mode) {
  return IsTemporaryName(name) || (HasLease(path) && !HasCommitMarker(path)) ||
         (ResolvedCommitMode(path, mode) == CommitMode::kMarkerFile &&
          IsBegunOnly(path));
}

// A save that ended since the look before has made a checkpoint of it.
Status RemoveUnlocked(const std::string& path, const std::string& name,
                      CommitMode mode, CleanupResult& result) {
  HF_ASSIGN_OR_RETURN(DirectoryLock lock, DirectoryLock::Take(path));
  if (!IsLeftover(path, name, mode)) return Status();
  HF_RETURN_IF_ERROR(lock.Remove(path));
  result.removed.push_back(path);
  return Status();
}

Status Clean(const std::string& root, const std::string& name, CommitMode mode,
             CleanupResult& result) {
  const std::string path = root + "/" + name;
  if (const auto final_name = NameOfReplaced(name)) {
    return Recover(root, name, *final_name, result);
  }
  if (!IsLeftover(path, name, mode)) return Status();
  return IsUrl(path) ? RemoveLeased(path, result)
                     : RemoveUnlocked(path, name, mode, result);
}

// Directories that are worth a second look. In an object store one listing
// tells; everything done afterwards asks again.
Result<std::vector<std::string>> Candidates(const std::string& root,
                                            CommitMode mode) {
  const LookScope scope(root);
  HF_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(root));
  std::vector<std::string> candidates;
  for (std::string& name : names) {
    const std::string path = root + "/" + name;
    HF_ASSIGN_OR_RETURN(const bool is_directory, IsDirectoryItself(path));
    if (!is_directory) continue;
    if (IsUrl(root) && !NameOfReplaced(name) && !IsLeftover(path, name, mode)) {
      continue;
    }
    candidates.push_back(std::move(name));
  }
  if (!IsUrl(root)) return candidates;
  // A checkpoint that was put aside comes first: its directory is a leftover,
  // too.
  std::stable_partition(
      candidates.begin(), candidates.end(),
      [](const std::string& name) { return NameOfReplaced(name).has_value(); });
  return candidates;
}

}  // namespace

Result<bool> IsTemporaryCheckpoint(const std::string& path, CommitMode mode) {
  const std::string absolute = AbsolutePath(path);
  HF_ASSIGN_OR_RETURN(const bool is_directory, IsDirectoryItself(absolute));
  return is_directory && !IsFinishedStep(absolute, mode);
}

Result<bool> IsCheckpointFinalized(const std::string& path, CommitMode mode) {
  const std::string absolute = AbsolutePath(path);
  HF_ASSIGN_OR_RETURN(const bool is_directory, IsDirectoryItself(absolute));
  return is_directory && IsFinishedStep(absolute, mode);
}

Result<bool> RemoveUnused(const std::string& path) {
  const std::string absolute = AbsolutePath(path);
  if (IsUrl(absolute)) {
    CleanupResult result;
    HF_RETURN_IF_ERROR(RemoveLeased(absolute, result));
    return !result.removed.empty();
  }
  Result<DirectoryLock> lock = DirectoryLock::Take(absolute);
  if (lock.status().code() == StatusCode::kAlreadyExists) return false;
  if (lock.status().code() == StatusCode::kNotFound) return true;
  HF_RETURN_IF_ERROR(lock.status());
  HF_RETURN_IF_ERROR(lock->Remove(absolute));
  return true;
}

Result<CleanupResult> CleanupTemporaryPaths(const std::string& root,
                                            CommitMode mode) {
  const std::string path = AbsolutePath(root);
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      Candidates(path, mode));
  CleanupResult result;
  for (const std::string& name : names) {
    const Status cleaned = Clean(path, name, mode, result);
    switch (cleaned.code()) {
      case StatusCode::kOk:
      case StatusCode::kNotFound:            // somebody else was faster
      case StatusCode::kFailedPrecondition:  // not ours to decide
        break;
      case StatusCode::kAlreadyExists:
        result.in_use.push_back(path + "/" + name);
        break;
      default:
        return cleaned;
    }
  }
  return result;
}

}  // namespace holdfast
