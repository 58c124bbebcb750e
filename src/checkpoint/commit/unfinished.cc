#include "checkpoint/commit/unfinished.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/status_macros.h"
#include "checkpoint/commit/layout.h"
#include "checkpoint/commit/lease.h"
#include "checkpoint/format/checkpoint_metadata.h"
#include "checkpoint/format/directory_names.h"
#include "place/directory_ops.h"
#include "place/open_store.h"
#include "place/well_known_names.h"
#include "storage/directory_lock.h"
#include "storage/errno_status.h"
#include "storage/new_file.h"
#include "storage/url_path.h"

namespace holdfast {
namespace {

constexpr std::string_view kReplacedSuffix = ".holdfast-replaced";

}  // namespace

std::string ReplacedName(const std::string& name) {
  return name + std::string(kReplacedSuffix);
}

std::optional<std::string> NameOfReplaced(std::string_view name) {
  if (!name.ends_with(kReplacedSuffix)) return std::nullopt;
  name.remove_suffix(kReplacedSuffix.size());
  if (name.empty()) return std::nullopt;
  return std::string(name);
}

Result<bool> HoldsNothing(const std::string& directory) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(directory));
  return std::all_of(names.begin(), names.end(), IsHiddenName);
}

bool HasCommitMarker(const std::string& directory) {
  const Result<PathKind> kind =
      GetPathKind(directory + "/" + std::string(kCommitMarkerFile));
  return kind.ok() && *kind == PathKind::kFile;
}

namespace {

// `_CHECKPOINT_METADATA`, where it can be read.
std::optional<CheckpointMetadata> MetadataOf(const std::string& directory) {
  const std::shared_ptr<Store> store = StoreAt(directory);
  const Result<Bytes> text = store->Read(kCheckpointMetadataFile);
  if (!text.ok()) return std::nullopt;
  Result<CheckpointMetadata> metadata = ParseCheckpointMetadata(text->view());
  if (!metadata.ok()) return std::nullopt;
  return std::move(metadata).value();
}

// True for a save that died between its last two files: the time of its commit
// says that everything else is there.
bool LacksOnlyTheMarker(const std::string& directory) {
  const auto metadata = MetadataOf(directory);
  return metadata && metadata->init_timestamp_nsecs &&
         metadata->commit_timestamp_nsecs && !HasCommitMarker(directory);
}

Status WriteCommitMarker(const std::string& directory) {
  const std::shared_ptr<Store> store = StoreAt(directory);
  const Result<ObjectInfo> digests = store->Stat(kDigestFile);
  return store->Write(kCommitMarkerFile,
                      CommitMarkerText(directory, digests.ok()));
}

}  // namespace

bool IsBegunOnly(const std::string& directory) {
  const auto metadata = MetadataOf(directory);
  return metadata && metadata->init_timestamp_nsecs &&
         !metadata->commit_timestamp_nsecs && !HasCommitMarker(directory);
}

CommitMode ResolvedCommitMode(const std::string& path, CommitMode mode) {
  return mode == CommitMode::kAuto && IsUrl(path) ? CommitMode::kMarkerFile
                                                  : mode;
}

Status DestinationExistsError(const std::string& path) {
  return AlreadyExistsError("Destination " + path + " already exists.");
}

bool IsFinished(const std::string& directory, CommitMode mode) {
  if (mode == CommitMode::kMarkerFile) return HasCommitMarker(directory);
  if (IsTemporaryName(FileNameOf(directory))) return false;
  if (mode == CommitMode::kRename) return true;
  if (!IsUrl(directory)) return !IsBegunOnly(directory);
  return HasCommitMarker(directory) ||
         (!HasLease(directory) && !IsBegunOnly(directory));
}

bool IsFinishedStep(const std::string& directory, CommitMode mode) {
  return IsFinished(directory, ResolvedCommitMode(directory, mode));
}

Status WriteMissingMarker(const std::string& directory) {
  return HasCommitMarker(directory) ? Status() : WriteCommitMarker(directory);
}

Status IncompleteError(const std::string& directory) {
  return FailedPreconditionError("Found incomplete checkpoint at " + directory +
                                 ".");
}

Status RemoveCommitMarker(const std::string& directory) {
  if (IsUrl(directory)) return StoreAt(directory)->Delete(kCommitMarkerFile);
  const std::string path = directory + "/" + std::string(kCommitMarkerFile);
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return Status();
  return ErrnoStatus(errno, "remove", path);
}

namespace {

Status BothUnclearError(const std::string& final_path,
                        const std::string& replaced) {
  return FailedPreconditionError(
      final_path + ": " + replaced +
      " is a checkpoint that an interrupted overwrite put aside, and the "
      "directory here is neither a finished checkpoint nor a leftover; "
      "remove one of the two");
}

// The one with the marker is whole: the marker comes last when a checkpoint is
// copied, and goes first when the original is removed.
Result<Recovery> RecoverRemote(const std::string& final_path,
                               const std::string& replaced,
                               const MayGoOn& may_go_on) {
  if (HasCommitMarker(final_path)) {
    HF_RETURN_IF_ERROR(RemoveTree(replaced, may_go_on));
    return Recovery::kRemoved;
  }
  if (!HasCommitMarker(replaced)) return BothUnclearError(final_path, replaced);
  HF_RETURN_IF_ERROR(
      RemoveAllBut(final_path, {std::string(kSaveLease)}, may_go_on));
  HF_RETURN_IF_ERROR(PublishDirectory(replaced, final_path, may_go_on));
  return Recovery::kRestored;
}

// The save that put it aside keeps it locked while it lives.
Result<Recovery> RecoverLocal(const std::string& final_path,
                              const std::string& replaced) {
  Result<DirectoryLock> aside = DirectoryLock::Take(replaced);
  if (aside.status().code() == StatusCode::kNotFound) return Recovery::kNothing;
  HF_RETURN_IF_ERROR(aside.status());
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(final_path));
  if (kind == PathKind::kMissing) {
    HF_RETURN_IF_ERROR(PublishDirectory(replaced, final_path));
    return Recovery::kRestored;
  }
  if (kind != PathKind::kDirectory) {
    return BothUnclearError(final_path, replaced);
  }
  HF_ASSIGN_OR_RETURN(DirectoryLock lock, DirectoryLock::Take(final_path));
  if (LacksOnlyTheMarker(final_path)) {
    HF_RETURN_IF_ERROR(WriteCommitMarker(final_path));
  }
  if (HasCommitMarker(final_path)) {
    HF_RETURN_IF_ERROR(aside->Remove(replaced));
    return Recovery::kRemoved;
  }
  HF_ASSIGN_OR_RETURN(const bool holds_nothing, HoldsNothing(final_path));
  if (!holds_nothing && !IsBegunOnly(final_path)) {
    return BothUnclearError(final_path, replaced);
  }
  HF_RETURN_IF_ERROR(lock.Remove(final_path));
  HF_RETURN_IF_ERROR(PublishDirectory(replaced, final_path));
  return Recovery::kRestored;
}

}  // namespace

Result<Recovery> RecoverReplaced(const std::string& final_path,
                                 const MayGoOn& may_go_on) {
  const std::string replaced = ReplacedName(final_path);
  HF_ASSIGN_OR_RETURN(const PathKind aside, GetPathKind(replaced));
  if (aside != PathKind::kDirectory) return Recovery::kNothing;
  if (IsUrl(final_path)) return RecoverRemote(final_path, replaced, may_go_on);
  return RecoverLocal(final_path, replaced);
}

}  // namespace holdfast
