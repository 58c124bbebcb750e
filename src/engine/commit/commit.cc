#include "engine/commit/commit.h"

#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "engine/commit/by_files.h"
#include "engine/commit/replaceable.h"
#include "engine/commit/unfinished.h"
#include "engine/format/directory_names.h"
#include "engine/references/reference_lock.h"
#include "engine/references/referrers.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "stores/place/directory_ops.h"
#include "stores/place/step_address.h"
#include "stores/storage/replace_directory.h"

namespace holdfast {
namespace {

// Limits retries, since rivals may again and again delete the checkpoint that
// is to be replaced.
constexpr int kPublishAttempts = 100;

// Checks that a save with these options may replace `place`.
// REQUIRES: `place` is a directory.
Status CheckMayReplaceBy(const Place& place, const CommitOptions& options) {
  if (options.overwrite) {
    HF_RETURN_IF_ERROR(options.keeps_other_files ? OtherFiles(place).status()
                                                 : CheckMayReplacePlace(place));
    return CheckNothingNeeds(place, options.result_id);
  }
  if (options.takes_empty_directory) {
    HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                        ListDirectory(place));
    if (names.empty()) return Status();
  }
  return DestinationExistsError(place);
}

Status CheckDestination(const Place& place, const CommitOptions& options) {
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(place));
  if (kind == PathKind::kMissing) return Status();
  if (kind != PathKind::kDirectory) return DestinationExistsError(place);
  return CheckMayReplaceBy(place, options);
}

Status RemoveLeftover(const Place& directory) {
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(directory));
  if (kind == PathKind::kMissing) return Status();
  if (kind != PathKind::kDirectory) return DestinationExistsError(directory);
  // A running save holds this lock, so only leftovers of dead saves are
  // removed.
  Result<DirectoryLock> lock = DirectoryLock::Take(directory.path());
  // The save has just ended, or another process is cleaning up.
  if (lock.status().code() == StatusCode::kNotFound) return Status();
  HF_RETURN_IF_ERROR(lock.status());
  return lock->Remove(directory.path());
}

Status CreateParents(const Place& place) {
  const Place parent = place.parent();
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(parent));
  if (kind == PathKind::kDirectory || kind == PathKind::kSymlink) {
    return Status();
  }
  if (kind == PathKind::kFile) {
    return FailedPreconditionError("save to " + place.path() + ": " +
                                   parent.path() + " is a file");
  }
  HF_RETURN_IF_ERROR(CreateParents(parent));
  const Status created = CreateDirectoryNew(parent);
  // Another process may just have created it.
  if (created.code() == StatusCode::kAlreadyExists) return Status();
  HF_RETURN_IF_ERROR(created);
  return SyncDirectory(parent.parent());
}

Status CheckName(const Place& final_place) {
  HF_RETURN_IF_ERROR(final_place.CheckWritable());
  HF_RETURN_IF_ERROR(CheckNamesNoStep(final_place));
  const std::string name = final_place.name();
  if (name.empty()) {
    return InvalidArgumentError("save to " + final_place.path() +
                                ": the path names no directory");
  }
  if (IsTemporaryName(name) || NameOfReplaced(name)) {
    return InvalidArgumentError("save to " + final_place.path() +
                                ": the name is that of a temporary directory");
  }
  return Status();
}

CommitMode ChosenMode(const Place& place, CommitMode mode) {
  const CommitMode resolved = ResolvedCommitMode(place, mode);
  return resolved == CommitMode::kAuto ? CommitMode::kRename : resolved;
}

CommitOptions WithMode(const Place& place, CommitOptions options) {
  options.mode = ChosenMode(place, options.mode);
  return options;
}

Status CheckMode(const Place& final_place, CommitMode mode) {
  if (final_place.can_rename() || mode != CommitMode::kRename) return Status();
  return InvalidArgumentError(
      "save to " + final_place.path() +
      ": commit mode kRename needs a file system that renames directories, and "
      "an object store has no rename (want kAuto or kMarkerFile)");
}

}  // namespace

Place PendingDirectory(const Place& final_place, CommitMode mode) {
  return ChosenMode(final_place, mode) == CommitMode::kMarkerFile
             ? final_place
             : final_place.parent() / TemporaryName(final_place.name());
}

PendingCheckpoint::PendingCheckpoint(Place final_place,
                                     const CommitOptions& options)
    : final_place_(std::move(final_place)),
      may_choose_mode_(options.mode == CommitMode::kAuto),
      options_(WithMode(final_place_, options)),
      directory_(PendingDirectory(final_place_, options_.mode)) {}

Result<std::unique_ptr<PendingCheckpoint>> PendingCheckpoint::Begin(
    const Place& final_place, const CommitOptions& options) {
  HF_RETURN_IF_ERROR(CheckName(final_place));
  HF_RETURN_IF_ERROR(CheckMode(final_place, options.mode));
  std::unique_ptr<PendingCheckpoint> pending(
      new PendingCheckpoint(final_place, options));
  if (!final_place.can_rename()) {
    HF_ASSIGN_OR_RETURN(
        pending->remote_,
        RemoteCommit::Begin(final_place, options.overwrite, options.result_id));
    return pending;
  }
  HF_RETURN_IF_ERROR(pending->is_committed_by_marker()
                         ? pending->BeginInPlace()
                         : pending->BeginTemporary());
  return pending;
}

Status PendingCheckpoint::BeginTemporary() {
  // Restore a checkpoint that a dead save put aside before checking the
  // destination.
  HF_RETURN_IF_ERROR(RecoverReplaced(final_place_).status());
  HF_RETURN_IF_ERROR(CheckDestination(final_place_, options_));
  access_ = AccessRule::Of(final_place_.path(), {});
  HF_RETURN_IF_ERROR(CreateParents(final_place_));
  HF_RETURN_IF_ERROR(RemoveLeftover(directory_));
  return MakeDirectory();
}

Status PendingCheckpoint::BeginInPlace() {
  HF_RETURN_IF_ERROR(CreateParents(final_place_));
  HF_RETURN_IF_ERROR(RecoverReplaced(final_place_).status());
  HF_RETURN_IF_ERROR(CheckDestination(final_place_, options_));
  access_ = AccessRule::Of(final_place_.path(), {});
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(final_place_));
  if (kind == PathKind::kDirectory) HF_RETURN_IF_ERROR(PutAsideOrRemove());
  HF_RETURN_IF_ERROR(MakeDirectory());
  return SyncDirectory(final_place_.parent());
}

// Puts a replaceable directory at the final path aside, or removes it if it is
// the leftover of a dead save.
Status PendingCheckpoint::PutAsideOrRemove() {
  HF_ASSIGN_OR_RETURN(replaced_, DirectoryLock::Take(final_place_.path()));
  // Another save may have ended since the earlier check.
  HF_RETURN_IF_ERROR(CheckMayReplacePlace(final_place_));
  if (IsBegunOnly(final_place_)) return replaced_.Remove(final_place_.path());
  return PutAside();
}

Status PendingCheckpoint::PutAside() {
  // With this lock, no delta based on the old checkpoint commits between this
  // check and the rename.
  const ReferenceLock lock(final_place_.parent());
  HF_RETURN_IF_ERROR(CheckNothingNeeds(final_place_, options_.result_id));
  replaced_at_ = ReplacedPlace(final_place_).path();
  const Status put_aside = PublishDirectory(final_place_, Place(replaced_at_));
  return put_aside.code() == StatusCode::kUnimplemented ? PutAsideByFiles()
                                                        : put_aside;
}

// Creates directory(). If it is to be private, it must be so from the start.
// Its exact permissions are set when it is complete, because they may forbid
// writing.
Status PendingCheckpoint::MakeDirectory() {
  HF_ASSIGN_OR_RETURN(lock_, DirectoryLock::Make(directory()));
  HF_RETURN_IF_ERROR(access_.CloseWhileItGrows(directory()));
  if (!options_.directory_mode) return Status();
  return SetPermissions(directory_, *options_.directory_mode | 0700);
}

Status PendingCheckpoint::BoundAccess(const std::vector<std::string>& sources) {
  if (remote_ != nullptr) return Status();
  access_.BoundBy(sources);
  return access_.CloseWhileItGrows(directory());
}

Status PendingCheckpoint::SetAccess(bool sync) const {
  return remote_ == nullptr ? access_.Apply(directory(), sync) : Status();
}

PendingCheckpoint::~PendingCheckpoint() {
  if (is_committed_) return;
  (void)CatchBadAlloc([&] {
    Abort();
    return Status();
  });
}

// Removes the directory and restores the replaced checkpoint. Best effort: the
// next save to this path recognizes leftovers and removes them. The marker is
// removed first, so that a half-removed directory is not taken for a
// checkpoint.
void PendingCheckpoint::Abort() {
  const Result<bool> is_ours = lock_.IsAt(directory());
  if (is_ours.ok() && *is_ours) {
    if (is_committed_by_marker()) (void)RemoveCommitMarker(directory_);
    (void)lock_.Remove(directory());
  }
  const Result<bool> is_aside = replaced_.IsAt(replaced_at_);
  if (is_aside.ok() && *is_aside) {
    (void)GiveName(Place(replaced_at_), final_place_);
  }
}

Status PendingCheckpoint::Commit() {
  if (remote_ != nullptr) {
    is_committed_ = true;
    return Status();
  }
  // Another process may have taken the name while this one was stopped.
  HF_ASSIGN_OR_RETURN(const bool is_ours, lock_.IsAt(directory()));
  if (!is_ours) {
    return FailedPreconditionError("save to " + final_path() +
                                   ": another process removed or replaced " +
                                   directory() + " while it was being written");
  }
  // may_commit and the renaming see the same references: between them nobody
  // removes a base, and no delta that needs the replaced checkpoint commits.
  ReferenceLock lock;
  if (options_.overwrite || options_.may_commit) {
    lock = ReferenceLock(final_place_.parent());
  }
  if (options_.may_commit) HF_RETURN_IF_ERROR(options_.may_commit());
  if (!is_committed_by_marker()) {
    const Status published = Publish();
    if (!published.ok()) {
      UndoRename();
      return published;
    }
  }
  is_committed_ = true;
  // The rest only removes directories that no longer have a public name, which
  // may take long.
  lock.Unlock();
  Status removed;
  if (is_moved_by_files_) removed = lock_.Remove(directory());
  // The replaced directory stays locked until it is removed.
  lock_.Unlock();
  if (!replaced_.is_held()) return removed;
  const Status replaced = replaced_.Remove(replaced_at_);
  return removed.ok() ? replaced : removed;
}

// Gives the new checkpoint its name. If it replaces another checkpoint, that
// one then has the temporary name, or the name for checkpoints moved aside. It
// stays locked until it is removed, so that no other process takes it for a
// leftover or uses its name.
Status PendingCheckpoint::Publish() {
  for (int attempt = 0; attempt < kPublishAttempts; ++attempt) {
    const Status published = PublishDirectory(directory_, final_place_);
    if (published.code() == StatusCode::kUnimplemented && may_choose_mode_) {
      return PublishByFiles();
    }
    if (published.code() != StatusCode::kAlreadyExists) return published;
    if (!options_.overwrite && !options_.takes_empty_directory) {
      return DestinationExistsError(final_place_);
    }
    Result<DirectoryLock> replaced = DirectoryLock::Take(final_place_.path());
    // A rival removed it between the two calls; rename again.
    if (replaced.status().code() == StatusCode::kNotFound) continue;
    HF_RETURN_IF_ERROR(replaced.status());
    // Check again under the lock: the directory may not be the one seen by
    // Begin.
    HF_RETURN_IF_ERROR(CheckMayReplaceBy(final_place_, options_));
    if (options_.keeps_other_files) HF_RETURN_IF_ERROR(KeepOtherFiles());
    replaced_ = std::move(replaced).value();
    const std::string aside = MovedPlace(final_place_).path();
    const auto at = local::ReplaceDirectory(directory(), final_path(), aside);
    if (at.status().code() == StatusCode::kUnimplemented && may_choose_mode_) {
      HF_RETURN_IF_ERROR(PutAsideByFiles());
      return PublishByFiles();
    }
    HF_ASSIGN_OR_RETURN(replaced_at_, at);
    return Status();
  }
  return DestinationExistsError(final_place_);
}

// Puts the old checkpoint aside on a file system that cannot rename
// directories. As in an object store, its copy is complete before the original
// is removed, and both have the marker until then.
Status PendingCheckpoint::PutAsideByFiles() {
  HF_ASSIGN_OR_RETURN(const bool holds_nothing, HoldsNothing(final_place_));
  if (holds_nothing || IsBegunOnly(final_place_)) {
    return replaced_.Remove(final_path());
  }
  const Place aside = ReplacedPlace(final_place_);
  HF_RETURN_IF_ERROR(WriteMissingMarker(final_place_));
  HF_ASSIGN_OR_RETURN(DirectoryLock lock, CopyByFiles(final_place_, aside));
  Status gone = MarkBegunOnly(final_place_);
  if (gone.ok()) gone = EmptyBegunOnly(final_place_);
  if (gone.ok()) gone = replaced_.Remove(final_path());
  if (!gone.ok()) {
    replaced_.Unlock();
    lock.Unlock();
    (void)RecoverReplaced(final_place_);
    return gone;
  }
  replaced_ = std::move(lock);
  replaced_at_ = aside.path();
  return Status();
}

Status PendingCheckpoint::PublishByFiles() {
  HF_RETURN_IF_ERROR(MoveByFiles(directory_, final_place_).status());
  is_moved_by_files_ = true;
  return Status();
}

// Links the files that do not belong to the old checkpoint into the new
// directory, before it takes the path.
Status PendingCheckpoint::KeepOtherFiles() {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> others,
                      OtherFiles(final_place_));
  for (const std::string& file : others) {
    const Place kept = directory_ / file;
    HF_RETURN_IF_ERROR(CreateParents(kept));
    const std::string from = (final_place_ / file).path();
    // EEXIST means that an earlier attempt has linked the file, or that the new
    // checkpoint has a file of this name, which stays.
    if (::link(from.c_str(), kept.path().c_str()) != 0 && errno != EEXIST) {
      return HoldsMoreError(final_path(), file);
    }
    HF_RETURN_IF_ERROR(SyncDirectory(kept.parent()));
  }
  return Status();
}

// Undoes a rename that failed. The names may have changed nevertheless, for
// example if only their sync failed, but a failed save must not be visible.
void PendingCheckpoint::UndoRename() {
  const Result<bool> is_visible = lock_.IsAt(final_path());
  if (!is_visible.ok() || !*is_visible) return;
  if (replaced_.is_held()) {
    (void)ExchangeDirectories(final_place_, directory_);
    return;
  }
  const Status undone = PublishDirectory(final_place_, directory_);
  if (undone.code() != StatusCode::kAlreadyExists) return;
  // A rival has taken the temporary name in the meantime.
  const std::string aside = directory() + "-" + std::to_string(::getpid());
  (void)PublishDirectory(final_place_, Place(aside));
  (void)lock_.Remove(aside);
}

}  // namespace holdfast
