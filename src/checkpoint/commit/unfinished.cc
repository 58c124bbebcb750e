#include "checkpoint/commit/unfinished.h"

#include <algorithm>
#include <vector>

#include "base/status_macros.h"
#include "checkpoint/commit/layout.h"
#include "checkpoint/commit/lease.h"
#include "checkpoint/format/checkpoint_metadata.h"
#include "checkpoint/format/directory_names.h"
#include "place/directory_ops.h"
#include "place/well_known_names.h"
#include "storage/directory_lock.h"
#include "storage/new_file.h"

namespace holdfast {
namespace {

constexpr std::string_view kReplacedSuffix = ".holdfast-replaced";

}  // namespace

std::string ReplacedName(const std::string& name) {
  return name + std::string(kReplacedSuffix);
}

Place ReplacedPlace(const Place& place) {
  return place.parent() / ReplacedName(place.name());
}

std::optional<std::string> NameOfReplaced(std::string_view name) {
  if (!name.ends_with(kReplacedSuffix)) return std::nullopt;
  name.remove_suffix(kReplacedSuffix.size());
  if (name.empty()) return std::nullopt;
  return std::string(name);
}

Result<bool> HoldsNothing(const Place& directory) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(directory));
  return std::all_of(names.begin(), names.end(), IsHiddenName);
}

bool HasCommitMarker(const Place& directory) {
  const Result<PathKind> kind = GetPathKind(directory / kCommitMarkerFile);
  return kind.ok() && *kind == PathKind::kFile;
}

namespace {

// `_CHECKPOINT_METADATA`, where it can be read.
std::optional<CheckpointMetadata> MetadataOf(const Place& directory) {
  const std::shared_ptr<Store> store = directory.OpenStore();
  const Result<Bytes> text = store->Read(kCheckpointMetadataFile);
  if (!text.ok()) return std::nullopt;
  Result<CheckpointMetadata> metadata = ParseCheckpointMetadata(text->view());
  if (!metadata.ok()) return std::nullopt;
  return std::move(metadata).value();
}

// True for a save that died between its last two files: the time of its commit
// says that everything else is there.
bool LacksOnlyTheMarker(const Place& directory) {
  const auto metadata = MetadataOf(directory);
  return metadata && metadata->init_timestamp_nsecs &&
         metadata->commit_timestamp_nsecs && !HasCommitMarker(directory);
}

Status WriteCommitMarker(const Place& directory) {
  const std::shared_ptr<Store> store = directory.OpenStore();
  const Result<ObjectInfo> digests = store->Stat(kDigestFile);
  return store->Write(kCommitMarkerFile,
                      CommitMarkerText(directory.path(), digests.ok()));
}

}  // namespace

bool IsBegunOnly(const Place& directory) {
  const auto metadata = MetadataOf(directory);
  return metadata && metadata->init_timestamp_nsecs &&
         !metadata->commit_timestamp_nsecs && !HasCommitMarker(directory);
}

CommitMode ResolvedCommitMode(const Place& place, CommitMode mode) {
  return mode == CommitMode::kAuto && !place.can_rename()
             ? CommitMode::kMarkerFile
             : mode;
}

Status DestinationExistsError(const Place& place) {
  return AlreadyExistsError("Destination " + place.path() + " already exists.");
}

bool IsFinished(const Place& directory, CommitMode mode) {
  if (mode == CommitMode::kMarkerFile) return HasCommitMarker(directory);
  if (IsTemporaryName(directory.name())) return false;
  if (mode == CommitMode::kRename) return true;
  return HasCommitMarker(directory) ||
         (!HasLease(directory) && !IsBegunOnly(directory));
}

bool IsFinishedStep(const Place& directory, CommitMode mode) {
  return IsFinished(directory, ResolvedCommitMode(directory, mode));
}

Status WriteMissingMarker(const Place& directory) {
  return HasCommitMarker(directory) ? Status() : WriteCommitMarker(directory);
}

Status IncompleteError(const Place& directory) {
  return FailedPreconditionError("Found incomplete checkpoint at " +
                                 directory.path() + ".");
}

Status RemoveCommitMarker(const Place& directory) {
  return directory.OpenStore()->Delete(kCommitMarkerFile);
}

namespace {

Status BothUnclearError(const Place& final_place, const Place& replaced) {
  return FailedPreconditionError(
      final_place.path() + ": " + replaced.path() +
      " is a checkpoint that an interrupted overwrite put aside, and the "
      "directory here is neither a finished checkpoint nor a leftover; "
      "remove one of the two");
}

// The one with the marker is whole: the marker comes last when a checkpoint is
// copied, and goes first when the original is removed.
Result<Recovery> RecoverRemote(const Place& final_place, const Place& replaced,
                               const MayGoOn& may_go_on) {
  if (HasCommitMarker(final_place)) {
    HF_RETURN_IF_ERROR(RemoveTree(replaced, may_go_on));
    return Recovery::kRemoved;
  }
  if (!HasCommitMarker(replaced))
    return BothUnclearError(final_place, replaced);
  HF_RETURN_IF_ERROR(
      RemoveAllBut(final_place, {std::string(kSaveLease)}, may_go_on));
  HF_RETURN_IF_ERROR(PublishDirectory(replaced, final_place, may_go_on));
  return Recovery::kRestored;
}

// The save that put it aside keeps it locked while it lives.
Result<Recovery> RecoverLocal(const Place& final_place, const Place& replaced) {
  Result<DirectoryLock> aside = DirectoryLock::Take(replaced.path());
  if (aside.status().code() == StatusCode::kNotFound) return Recovery::kNothing;
  HF_RETURN_IF_ERROR(aside.status());
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(final_place));
  if (kind == PathKind::kMissing) {
    HF_RETURN_IF_ERROR(PublishDirectory(replaced, final_place));
    return Recovery::kRestored;
  }
  if (kind != PathKind::kDirectory) {
    return BothUnclearError(final_place, replaced);
  }
  HF_ASSIGN_OR_RETURN(DirectoryLock lock,
                      DirectoryLock::Take(final_place.path()));
  if (LacksOnlyTheMarker(final_place)) {
    HF_RETURN_IF_ERROR(WriteCommitMarker(final_place));
  }
  if (HasCommitMarker(final_place)) {
    HF_RETURN_IF_ERROR(aside->Remove(replaced.path()));
    return Recovery::kRemoved;
  }
  HF_ASSIGN_OR_RETURN(const bool holds_nothing, HoldsNothing(final_place));
  if (!holds_nothing && !IsBegunOnly(final_place)) {
    return BothUnclearError(final_place, replaced);
  }
  HF_RETURN_IF_ERROR(lock.Remove(final_place.path()));
  HF_RETURN_IF_ERROR(PublishDirectory(replaced, final_place));
  return Recovery::kRestored;
}

}  // namespace

Result<Recovery> RecoverReplaced(const Place& final_place,
                                 const MayGoOn& may_go_on) {
  const Place replaced = ReplacedPlace(final_place);
  HF_ASSIGN_OR_RETURN(const PathKind aside, GetPathKind(replaced));
  if (aside != PathKind::kDirectory) return Recovery::kNothing;
  return final_place.can_rename()
             ? RecoverLocal(final_place, replaced)
             : RecoverRemote(final_place, replaced, may_go_on);
}

}  // namespace holdfast
