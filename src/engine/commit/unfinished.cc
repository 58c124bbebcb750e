#include "engine/commit/unfinished.h"

#include <algorithm>
#include <vector>

#include "engine/commit/by_files.h"
#include "engine/commit/layout.h"
#include "engine/commit/lease.h"
#include "engine/format/checkpoint_metadata.h"
#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"
#include "stores/place/directory_ops.h"
#include "stores/place/well_known_names.h"
#include "stores/storage/directory_lock.h"
#include "stores/storage/new_file.h"

namespace holdfast {
namespace {

constexpr std::string_view kReplacedSuffix = ".holdfast-replaced";
constexpr std::string_view kMovedSuffix = ".holdfast-moved";

}  // namespace

std::string ReplacedName(const std::string& name) {
  return name + std::string(kReplacedSuffix);
}

Place ReplacedPlace(const Place& place) {
  return place.parent() / ReplacedName(place.name());
}

Place MovedPlace(const Place& place) {
  return place.parent() / (place.name() + std::string(kMovedSuffix));
}

std::optional<std::string> NameOfReplaced(std::string_view name) {
  for (const std::string_view suffix : {kReplacedSuffix, kMovedSuffix}) {
    if (!name.ends_with(suffix) || name == suffix) continue;
    return std::string(name.substr(0, name.size() - suffix.size()));
  }
  return std::nullopt;
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

// Returns the contents of `_CHECKPOINT_METADATA`, if readable.
std::optional<CheckpointMetadata> MetadataOf(const Place& directory) {
  const std::shared_ptr<Store> store = directory.OpenStore();
  const Result<Bytes> text = store->Read(kCheckpointMetadataFile);
  if (!text.ok()) return std::nullopt;
  Result<CheckpointMetadata> metadata = ParseCheckpointMetadata(text->view());
  if (!metadata.ok()) return std::nullopt;
  return std::move(metadata).value();
}

// Returns true for a save that died between its last two files: the recorded
// commit time shows that everything else was written.
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

// Recovers in an object store. The checkpoint with the marker is complete: the
// marker is copied last, and is the first file to be removed from the original.
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

// Returns whether the directory at the place is a leftover; FailedPrecondition
// if that cannot be determined. With `is_whole`, the directory was renamed to
// this place and is complete. Otherwise it was written there, and is complete
// only if its files show that.
Result<bool> IsLeftoverAt(const Place& final_place, bool is_whole) {
  HF_ASSIGN_OR_RETURN(const bool holds_nothing, HoldsNothing(final_place));
  if (holds_nothing || IsBegunOnly(final_place)) return true;
  if (is_whole) return false;
  if (LacksOnlyTheMarker(final_place)) {
    HF_RETURN_IF_ERROR(WriteCommitMarker(final_place));
  }
  if (HasCommitMarker(final_place)) return false;
  return FailedPreconditionError("");
}

// Recovers in a file system. The save that put the checkpoint aside keeps it
// locked while it runs.
Result<Recovery> RecoverLocal(const Place& final_place, const Place& replaced,
                              bool is_whole) {
  Result<DirectoryLock> aside = DirectoryLock::Take(replaced.path());
  if (aside.status().code() == StatusCode::kNotFound) return Recovery::kNothing;
  HF_RETURN_IF_ERROR(aside.status());
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(final_place));
  if (kind == PathKind::kMissing) {
    HF_RETURN_IF_ERROR(GiveName(replaced, final_place));
    return Recovery::kRestored;
  }
  if (kind != PathKind::kDirectory) {
    return BothUnclearError(final_place, replaced);
  }
  // A running save holds this lock, and then nothing is recovered.
  HF_ASSIGN_OR_RETURN(DirectoryLock lock,
                      DirectoryLock::Take(final_place.path()));
  const Result<bool> is_leftover = IsLeftoverAt(final_place, is_whole);
  if (is_leftover.status().code() == StatusCode::kFailedPrecondition) {
    return BothUnclearError(final_place, replaced);
  }
  HF_RETURN_IF_ERROR(is_leftover.status());
  if (!*is_leftover) {
    HF_RETURN_IF_ERROR(aside->Remove(replaced.path()));
    return Recovery::kRemoved;
  }
  // The metadata are removed last: after a crash in between the directory is
  // still recognized as a leftover.
  HF_RETURN_IF_ERROR(EmptyBegunOnly(final_place));
  HF_RETURN_IF_ERROR(lock.Remove(final_place.path()));
  HF_RETURN_IF_ERROR(GiveName(replaced, final_place));
  return Recovery::kRestored;
}

}  // namespace

Result<Recovery> RecoverReplaced(const Place& final_place,
                                 const MayGoOn& may_go_on) {
  const Place moved = MovedPlace(final_place);
  if (final_place.can_rename()) {
    HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(moved));
    if (kind == PathKind::kDirectory) {
      return RecoverLocal(final_place, moved, /*is_whole=*/true);
    }
  }
  const Place replaced = ReplacedPlace(final_place);
  HF_ASSIGN_OR_RETURN(const PathKind aside, GetPathKind(replaced));
  if (aside != PathKind::kDirectory) return Recovery::kNothing;
  return final_place.can_rename()
             ? RecoverLocal(final_place, replaced, /*is_whole=*/false)
             : RecoverRemote(final_place, replaced, may_go_on);
}

void BringBack(const Place& final_place) {
  if (!final_place.can_rename() || final_place.name().empty()) return;
  const Result<PathKind> kind = GetPathKind(final_place);
  if (!kind.ok() || *kind != PathKind::kMissing) return;
  // Ignored: a save may be using it, or this process may not rename.
  static_cast<void>(RecoverReplaced(final_place));
}

Result<Place> PresentPlace(const Place& place) {
  HF_ASSIGN_OR_RETURN(PathKind kind, GetPathKind(place));
  if (kind != PathKind::kMissing || !place.can_rename()) return place;
  BringBack(place);
  // Between the two renames of a running save, the old checkpoint is aside.
  // Once it is not there any more, the new checkpoint has the name.
  for (const Place& aside : {MovedPlace(place), ReplacedPlace(place)}) {
    HF_ASSIGN_OR_RETURN(kind, GetPathKind(place));
    if (kind != PathKind::kMissing) break;
    HF_ASSIGN_OR_RETURN(kind, GetPathKind(aside));
    if (kind == PathKind::kDirectory) return aside;
  }
  return place;
}

Result<std::vector<std::string>> ListBroughtBack(const Place& root) {
  HF_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(root));
  if (!root.can_rename()) return names;
  bool is_changed = false;
  for (const std::string& name : names) {
    const auto final_name = NameOfReplaced(name);
    if (!final_name ||
        std::binary_search(names.begin(), names.end(), *final_name)) {
      continue;
    }
    BringBack(root / *final_name);
    is_changed = true;
  }
  if (is_changed) return ListDirectory(root);
  return names;
}

}  // namespace holdfast
