#include "checkpoint/commit/commit.h"

#include <unistd.h>

#include <utility>

#include "base/no_throw.h"
#include "base/status_macros.h"
#include "checkpoint/commit/replaceable.h"
#include "checkpoint/commit/unfinished.h"
#include "checkpoint/format/directory_names.h"
#include "place/directory_ops.h"
#include "storage/path_parts.h"
#include "storage/url_path.h"

namespace holdfast {
namespace {

// A rival may delete the checkpoint that is to be replaced, again and again.
constexpr int kPublishAttempts = 100;

Status CheckDestination(const std::string& path, bool overwrite) {
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(path));
  if (kind == PathKind::kMissing) return Status();
  if (!overwrite || kind != PathKind::kDirectory) {
    return DestinationExistsError(path);
  }
  return CheckMayReplace(path);
}

Status RemoveLeftover(const std::string& directory) {
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(directory));
  if (kind == PathKind::kMissing) return Status();
  if (kind != PathKind::kDirectory) return DestinationExistsError(directory);
  Result<DirectoryLock> lock = DirectoryLock::Take(directory);
  // Its save has ended just now, or another process clears up.
  if (lock.status().code() == StatusCode::kNotFound) return Status();
  HF_RETURN_IF_ERROR(lock.status());
  return lock->Remove(directory);
}

Status CreateParents(const std::string& path) {
  const std::string parent = ParentDirectory(path);
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(parent));
  if (kind == PathKind::kDirectory || kind == PathKind::kSymlink) {
    return Status();
  }
  if (kind == PathKind::kFile) {
    return FailedPreconditionError("save to " + path + ": " + parent +
                                   " is a file");
  }
  HF_RETURN_IF_ERROR(CreateParents(parent));
  const Status created = CreateDirectoryNew(parent);
  // Another process may have made it just now.
  if (created.code() == StatusCode::kAlreadyExists) return Status();
  HF_RETURN_IF_ERROR(created);
  return SyncDirectory(ParentDirectory(parent));
}

Status CheckName(const std::string& final_path) {
  const std::string name = FileNameOf(final_path);
  if (name.empty()) {
    return InvalidArgumentError("save to " + final_path +
                                ": the path names no directory");
  }
  if (IsTemporaryName(name) || NameOfReplaced(name)) {
    return InvalidArgumentError("save to " + final_path +
                                ": the name is that of a temporary directory");
  }
  return Status();
}

CommitMode ChosenMode(const std::string& path, CommitMode mode) {
  const CommitMode resolved = ResolvedCommitMode(path, mode);
  return resolved == CommitMode::kAuto ? CommitMode::kRename : resolved;
}

CommitOptions WithMode(const std::string& path, CommitOptions options) {
  options.mode = ChosenMode(path, options.mode);
  return options;
}

Status CheckMode(const std::string& final_path, CommitMode mode) {
  if (!IsUrl(final_path) || mode != CommitMode::kRename) return Status();
  return InvalidArgumentError(
      "save to " + final_path +
      ": commit mode kRename needs a file system that renames directories, and "
      "an object store has no rename (want kAuto or kMarkerFile)");
}

}  // namespace

std::string PendingDirectory(const std::string& final_path, CommitMode mode) {
  return ChosenMode(final_path, mode) == CommitMode::kMarkerFile
             ? final_path
             : TemporaryName(final_path);
}

PendingCheckpoint::PendingCheckpoint(std::string final_path,
                                     const CommitOptions& options)
    : final_path_(std::move(final_path)),
      options_(WithMode(final_path_, options)),
      directory_(PendingDirectory(final_path_, options_.mode)) {}

Result<std::unique_ptr<PendingCheckpoint>> PendingCheckpoint::Begin(
    const std::string& final_path, const CommitOptions& options) {
  HF_RETURN_IF_ERROR(CheckName(final_path));
  HF_RETURN_IF_ERROR(CheckMode(final_path, options.mode));
  std::unique_ptr<PendingCheckpoint> pending(
      new PendingCheckpoint(final_path, options));
  if (IsUrl(final_path)) {
    HF_ASSIGN_OR_RETURN(pending->remote_,
                        RemoteCommit::Begin(final_path, options.overwrite));
    return pending;
  }
  HF_RETURN_IF_ERROR(pending->is_committed_by_marker()
                         ? pending->BeginInPlace()
                         : pending->BeginTemporary());
  return pending;
}

Status PendingCheckpoint::BeginTemporary() {
  HF_RETURN_IF_ERROR(CheckDestination(final_path_, options_.overwrite));
  HF_RETURN_IF_ERROR(CreateParents(final_path_));
  HF_RETURN_IF_ERROR(RemoveLeftover(directory_));
  return MakeDirectory();
}

Status PendingCheckpoint::BeginInPlace() {
  HF_RETURN_IF_ERROR(CreateParents(final_path_));
  HF_RETURN_IF_ERROR(RecoverReplaced(final_path_).status());
  HF_RETURN_IF_ERROR(CheckDestination(final_path_, options_.overwrite));
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(final_path_));
  if (kind == PathKind::kDirectory) HF_RETURN_IF_ERROR(PutAsideOrRemove());
  HF_RETURN_IF_ERROR(MakeDirectory());
  return SyncDirectory(ParentPath(final_path_));
}

// The directory at the final path may be replaced. The leftover of a dead save
// is not worth keeping.
Status PendingCheckpoint::PutAsideOrRemove() {
  HF_ASSIGN_OR_RETURN(replaced_, DirectoryLock::Take(final_path_));
  // Another save may have ended since the look before.
  HF_RETURN_IF_ERROR(CheckMayReplace(final_path_));
  if (IsBegunOnly(final_path_)) return replaced_.Remove(final_path_);
  return PublishDirectory(final_path_, ReplacedName(final_path_));
}

// A private directory must be private from the start. Its exact permissions are
// set when it is complete, since they may forbid writing.
Status PendingCheckpoint::MakeDirectory() {
  HF_ASSIGN_OR_RETURN(lock_, DirectoryLock::Make(directory_));
  if (!options_.directory_mode) return Status();
  return SetPermissions(directory_, *options_.directory_mode | 0700);
}

PendingCheckpoint::~PendingCheckpoint() {
  if (is_committed_) return;
  (void)CatchBadAlloc([&] {
    Abort();
    return Status();
  });
}

// Best effort: the next save to the same path recognises leftovers and removes
// them. The marker goes first, so that a half-removed directory is not taken
// for a checkpoint.
void PendingCheckpoint::Abort() {
  const Result<bool> is_ours = lock_.IsAt(directory_);
  if (is_ours.ok() && *is_ours) {
    if (is_committed_by_marker()) (void)RemoveCommitMarker(directory_);
    (void)lock_.Remove(directory_);
  }
  const std::string aside = ReplacedName(final_path_);
  const Result<bool> is_aside = replaced_.IsAt(aside);
  if (is_aside.ok() && *is_aside) (void)PublishDirectory(aside, final_path_);
}

Status PendingCheckpoint::Commit() {
  if (remote_ != nullptr) {
    is_committed_ = true;
    return Status();
  }
  // The name may have been taken over while this process was stopped.
  HF_ASSIGN_OR_RETURN(const bool is_ours, lock_.IsAt(directory_));
  if (!is_ours) {
    return FailedPreconditionError("save to " + final_path_ +
                                   ": another process removed or replaced " +
                                   directory_ + " while it was being written");
  }
  if (!is_committed_by_marker()) {
    const Status published = Publish();
    if (!published.ok()) {
      UndoRename();
      return published;
    }
  }
  is_committed_ = true;
  // The lock of what was replaced is kept until it is removed.
  lock_.Unlock();
  if (!replaced_.is_held()) return Status();
  return replaced_.Remove(is_committed_by_marker() ? ReplacedName(final_path_)
                                                   : directory_);
}

// After the exchange the replaced checkpoint has the temporary name and is
// locked: no other process takes it for a leftover, or the name for its own,
// before it is removed.
Status PendingCheckpoint::Publish() {
  for (int attempt = 0; attempt < kPublishAttempts; ++attempt) {
    const Status published = PublishDirectory(directory_, final_path_);
    if (published.code() != StatusCode::kAlreadyExists) return published;
    if (!options_.overwrite) return DestinationExistsError(final_path_);
    Result<DirectoryLock> replaced = DirectoryLock::Take(final_path_);
    // A rival removed it between the two calls: rename again.
    if (replaced.status().code() == StatusCode::kNotFound) continue;
    HF_RETURN_IF_ERROR(replaced.status());
    HF_RETURN_IF_ERROR(CheckMayReplace(final_path_));
    replaced_ = std::move(replaced).value();
    return ExchangeDirectories(directory_, final_path_);
  }
  return DestinationExistsError(final_path_);
}

// The names may have changed although the call failed, as when only their sync
// failed. A save that fails must not be visible.
void PendingCheckpoint::UndoRename() {
  const Result<bool> is_visible = lock_.IsAt(final_path_);
  if (!is_visible.ok() || !*is_visible) return;
  if (replaced_.is_held()) {
    (void)ExchangeDirectories(final_path_, directory_);
    return;
  }
  const Status undone = PublishDirectory(final_path_, directory_);
  if (undone.code() != StatusCode::kAlreadyExists) return;
  // A rival has taken the temporary name meanwhile.
  const std::string aside = directory_ + "-" + std::to_string(::getpid());
  (void)PublishDirectory(final_path_, aside);
  (void)lock_.Remove(aside);
}

}  // namespace holdfast
