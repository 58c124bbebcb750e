// The functions of holdfast/commit.h.
#include "base/status_macros.h"
#include "checkpoint/format/directory_names.h"
#include "checkpoint/layout.h"
#include "checkpoint/lease.h"
#include "checkpoint/unfinished.h"
#include "holdfast/commit.h"
#include "place/directory_ops.h"
#include "place/server_checks.h"
#include "storage/url_path.h"

namespace holdfast {
namespace {

Result<bool> IsDirectoryItself(const std::string& path) {
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(path));
  return kind == PathKind::kDirectory;
}

Status RemoveUnlocked(const std::string& path, CleanupResult& result) {
  HF_ASSIGN_OR_RETURN(const UniqueFd lock, LockDirectory(path));
  if (IsUrl(path)) {
    // Whoever still writes there will see that it is over.
    HF_RETURN_IF_ERROR(SaveLease::Take(path).status());
    HF_RETURN_IF_ERROR(AbortUploadsBelow(path));
  }
  HF_RETURN_IF_ERROR(RemoveTree(path));
  result.removed.push_back(path);
  return Status();
}

Status Recover(const std::string& root, const std::string& name,
               const std::string& final_name, CleanupResult& result) {
  const std::string final_path = root + "/" + final_name;
  std::optional<SaveLease> lease;
  if (IsUrl(final_path)) {
    HF_ASSIGN_OR_RETURN(lease, SaveLease::Take(final_path));
  }
  HF_ASSIGN_OR_RETURN(const Recovery recovery, RecoverReplaced(final_path));
  if (lease) lease->Release();
  if (recovery == Recovery::kRestored) result.restored.push_back(final_path);
  if (recovery == Recovery::kRemoved) {
    result.removed.push_back(root + "/" + name);
  }
  return Status();
}

Status Clean(const std::string& root, const std::string& name, CommitMode mode,
             CleanupResult& result) {
  const std::string path = root + "/" + name;
  if (const auto final_name = NameOfReplaced(name)) {
    return Recover(root, name, *final_name, result);
  }
  const bool is_leftover =
      IsTemporaryName(name) ||
      (HasLease(path) && !HasCommitMarker(path)) ||
      (ResolvedCommitMode(path, mode) == CommitMode::kMarkerFile &&
       IsBegunOnly(path));
  return is_leftover ? RemoveUnlocked(path, result) : Status();
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

Result<CleanupResult> CleanupTemporaryPaths(const std::string& root,
                                            CommitMode mode) {
  const std::string path = AbsolutePath(root);
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(path));
  CleanupResult result;
  for (const std::string& name : names) {
    HF_ASSIGN_OR_RETURN(const bool is_directory,
                        IsDirectoryItself(path + "/" + name));
    if (!is_directory) continue;
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
