#include "engine/commit/remote_commit.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "engine/commit/layout.h"
#include "engine/commit/replaceable.h"
#include "engine/commit/unfinished.h"
#include "engine/format/checkpoint_metadata.h"
#include "engine/format/directory_names.h"
#include "engine/references/referrers.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "stores/place/directory_ops.h"
#include "stores/place/server_checks.h"
#include "stores/place/swap_file.h"
#include "stores/place/well_known_names.h"

namespace holdfast {
namespace {

// Written into `_CHECKPOINT_METADATA` while the save runs, so that no two saves
// have the same text there.
constexpr const char* kSaveIdKey = "holdfast_save_id";

// The entries directly in a directory.
struct Contents {
  bool has_marker = false;
  bool has_lease = false;
  bool has_more = false;
};

Result<Contents> ContentsOf(const Place& place) {
  Contents contents;
  const Result<std::vector<std::string>> names = ListDirectory(place);
  if (names.status().code() == StatusCode::kNotFound) {
    // An object with exactly this name would be hidden by the checkpoint.
    HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(place));
    if (kind == PathKind::kMissing) return contents;
    return DestinationExistsError(place);
  }
  HF_RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    if (name == kCommitMarkerFile) {
      contents.has_marker = true;
    } else if (name == kSaveLease) {
      contents.has_lease = true;
    } else {
      contents.has_more = true;
    }
  }
  return contents;
}

// Refuses whatever can be refused without a lease, so that a doomed save does
// not disturb another save.
Status CheckContents(const Place& place, const Contents& contents,
                     bool overwrite) {
  // Files next to a lease, without a marker, belong to an unfinished save.
  const bool is_checkpoint =
      contents.has_marker || (contents.has_more && !contents.has_lease);
  if (!is_checkpoint) return Status();
  if (!overwrite) return DestinationExistsError(place);
  return CheckMayReplacePlace(place);
}

}  // namespace

RemoteCommit::RemoteCommit(Place place, SaveLease lease)
    : place_(std::move(place)), lease_(std::move(lease)) {}

Result<std::unique_ptr<RemoteCommit>> RemoteCommit::Begin(
    const Place& place, bool overwrite, const std::string& result_id) {
  // Most saves use a new name, with nothing to list yet.
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(place));
  if (kind != PathKind::kMissing) {
    HF_ASSIGN_OR_RETURN(const Contents contents, ContentsOf(place));
    HF_RETURN_IF_ERROR(CheckContents(place, contents, overwrite));
    if (overwrite) HF_RETURN_IF_ERROR(CheckNothingNeeds(place, result_id));
  }
  HF_ASSIGN_OR_RETURN(SaveLease lease, SaveLease::Take(place));
  std::unique_ptr<RemoteCommit> commit(
      new RemoteCommit(place, std::move(lease)));
  HF_RETURN_IF_ERROR(commit->Explain(commit->Prepare(overwrite)));
  return commit;
}

// Checks the path again under the lease, because another save may have ended
// since the earlier check, and clears it.
Status RemoteCommit::Prepare(bool overwrite) {
  // An earlier holder may have left files here. Then the lease stays if this
  // save fails, so that the next save cleans up.
  may_release_ = !lease_.had_holder();
  HF_ASSIGN_OR_RETURN(const bool is_aside_there,
                      LeadsToDirectory(ReplacedPlace(place_)));
  HF_ASSIGN_OR_RETURN(const Contents found, ContentsOf(place_));
  const bool is_empty = !found.has_marker && !found.has_more;
  if (is_empty && !is_aside_there) {
    if (lease_.had_holder()) HF_RETURN_IF_ERROR(AbortUploadsBelow(place_));
    is_ours_ = true;
    return Status();
  }
  HF_RETURN_IF_ERROR(lease_.BeginCommit());
  HF_RETURN_IF_ERROR(ClearAway(overwrite));
  return lease_.EndProtection();
}

// Moves and removes the existing objects. REQUIRES: the lease is protected.
Status RemoteCommit::ClearAway(bool overwrite) {
  HF_RETURN_IF_ERROR(RecoverReplaced(place_, KeepsLease()).status());
  HF_ASSIGN_OR_RETURN(const Contents contents, ContentsOf(place_));
  if (contents.has_marker) may_release_ = true;
  const bool is_leftover =
      !contents.has_marker &&
      (lease_.had_holder() || (contents.has_more && IsBegunOnly(place_)));
  if (!is_leftover) {
    Contents without_lease = contents;
    without_lease.has_lease = false;
    HF_RETURN_IF_ERROR(CheckContents(place_, without_lease, overwrite));
    if (contents.has_marker || contents.has_more) {
      HF_RETURN_IF_ERROR(PutAside());
    }
  } else if (contents.has_more) {
    HF_RETURN_IF_ERROR(
        RemoveAllBut(place_, {std::string(kSaveLease)}, KeepsLease()));
  }
  if (lease_.had_holder()) HF_RETURN_IF_ERROR(AbortUploadsBelow(place_));
  is_ours_ = true;
  return Status();
}

MayGoOn RemoteCommit::KeepsLease() {
  return [this] { return lease_.KeepCommitting(); };
}

// Copies the old checkpoint aside. The copy counts as soon as it has a marker,
// so the original must have one too.
Status RemoteCommit::PutAside() {
  HF_RETURN_IF_ERROR(WriteMissingMarker(place_));
  // From here on this save is responsible for both checkpoints.
  is_put_aside_ = true;
  may_release_ = false;
  return PublishDirectory(place_, ReplacedPlace(place_), KeepsLease());
}

RemoteCommit::~RemoteCommit() {
  if (is_finished_) return;
  (void)CatchBadAlloc([&] {
    Abort();
    return Status();
  });
}

// Removes what was written and restores what was replaced. Best effort: while
// the lease stays, the next save continues the cleanup.
void RemoteCommit::Abort() {
  // Without protection another saver may already be writing there.
  if (!lease_.BeginCommit().ok()) return;
  if (is_ours_) {
    if (!AbortUploadsBelow(place_).ok()) return;
    const Status removed =
        RemoveAllBut(place_, {std::string(kSaveLease)}, KeepsLease());
    if (!removed.ok()) return;
    may_release_ = true;
  }
  if (is_put_aside_) {
    if (!RecoverReplaced(place_, KeepsLease()).ok()) return;
    may_release_ = true;
  }
  if (may_release_) (void)lease_.Release();
}

Status RemoteCommit::WriteBegun(uint64_t now_ns) {
  CheckpointMetadata metadata;
  metadata.init_timestamp_nsecs = now_ns;
  metadata.custom_metadata[kSaveIdKey] = lease_.save_id();
  begun_text_ = SerializeCheckpointMetadata(metadata);
  return Explain(
      SwapFile(place_ / kCheckpointMetadataFile, std::nullopt, begun_text_));
}

Status RemoteCommit::Explain(const Status& failure) const {
  if (failure.ok() || failure.code() == StatusCode::kCancelled) return failure;
  const Status held = lease_.CheckHeld();
  return held.code() == StatusCode::kFailedPrecondition ? held : failure;
}

Status RemoteCommit::CheckComplete(const WrittenSizes& sizes) const {
  WrittenSizes missing = sizes;
  Status wrong;
  const auto check = [&](std::string_view key, const ObjectInfo& info) {
    const auto found = missing.find(std::string(key));
    if (found == missing.end()) return Status();
    const WrittenSize& want = found->second;
    const bool is_right = want.is_exact ? info.byte_count == want.byte_count
                                        : info.byte_count >= want.byte_count;
    if (!is_right && wrong.ok()) {
      wrong =
          DataLossError("save to " + place_.path() + ": " + std::string(key) +
                        " has " + std::to_string(info.byte_count) +
                        " bytes (want " + std::to_string(want.byte_count) +
                        (want.is_exact ? ")" : " or more)"));
    }
    missing.erase(found);
    return Status();
  };
  HF_RETURN_IF_ERROR(place_.OpenStore()->List("", check));
  HF_RETURN_IF_ERROR(wrong);
  if (missing.empty()) return Status();
  return DataLossError("save to " + place_.path() + ": " +
                       missing.begin()->first +
                       " was written and is gone; another process has "
                       "removed it");
}

Status RemoteCommit::WriteMarker(const std::string& metadata,
                                 const std::string& marker) {
  // The files were checked and the marker is written under one lease, so that
  // both concern the same objects.
  HF_RETURN_IF_ERROR(lease_.BeginCommit());
  HF_RETURN_IF_ERROR(
      SwapFile(place_ / kCheckpointMetadataFile, begun_text_, metadata));
  HF_RETURN_IF_ERROR(lease_.KeepCommitting());
  return SwapFile(place_ / kCommitMarkerFile, std::nullopt, marker);
}

Status RemoteCommit::Finish(const WrittenSizes& sizes,
                            const std::string& metadata,
                            const std::string& marker) {
  HF_RETURN_IF_ERROR(Explain(CheckComplete(sizes)));
  HF_RETURN_IF_ERROR(Explain(WriteMarker(metadata, marker)));
  is_finished_ = true;
  // The checkpoint is committed; the next save removes any leftovers. The lease
  // is released last, because a save that waits for it may put this checkpoint
  // aside.
  if (is_put_aside_) {
    HF_RETURN_IF_ERROR(lease_.CheckHeld());
    if (!RemoveTree(ReplacedPlace(place_), KeepsLease()).ok()) return Status();
  }
  return lease_.Release();
}

}  // namespace holdfast
