// Determines which directories hold a checkpoint whose save has not ended yet,
// or never will.
//
// Thread-safety: any thread. Ownership: none.
// Errors: those of the file system, with the path.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/options.h"
#include "holdfast/status.h"
#include "stores/place/directory_ops.h"

namespace holdfast {

// Returns the name that a checkpoint has while another is written in its place.
std::string ReplacedName(const std::string& name);
Place ReplacedPlace(const Place& place);
// Returns the name that a checkpoint has while another, complete one is renamed
// into its place, on file systems that cannot exchange names (ReplaceDirectory
// of stores/storage/directory_ops.h).
Place MovedPlace(const Place& place);
// Returns the original name if `name` is one that ReplacedPlace or MovedPlace
// makes; otherwise nullopt.
std::optional<std::string> NameOfReplaced(std::string_view name);

// Returns whether a directory is empty, apart from files that were being
// written under hidden names. Such files are left by a save that died early.
Result<bool> HoldsNothing(const Place& directory);

bool HasCommitMarker(const Place& directory);
// Removes the commit marker; returns ok if it is missing.
Status RemoveCommitMarker(const Place& directory);

// Returns whether the directory is marked as begun and not committed: its
// `_CHECKPOINT_METADATA` has the time of the beginning but not of the commit,
// and there is no marker.
bool IsBegunOnly(const Place& directory);

// Resolves kAuto for a path: in an object store nothing can be renamed, so it
// is kMarkerFile there, as in Orbax on gs://.
CommitMode ResolvedCommitMode(const Place& place, CommitMode mode);

// Returns AlreadyExists `Destination P already exists.`
Status DestinationExistsError(const Place& place);

// Returns whether a directory with this path would be a finished checkpoint:
// with kMarkerFile the marker must exist; with kRename the name must not be
// temporary; with kAuto, in addition, IsBegunOnly must be false. In an object
// store kAuto requires the marker, or the absence of all signs of a save or a
// removal: a checkpoint that another tool copied there must be found by its
// path.
bool IsFinished(const Place& directory, CommitMode mode);
// Like IsFinished, for a step of a root that was not requested by its path:
// with kAuto, the marker must exist in an object store.
bool IsFinishedStep(const Place& directory, CommitMode mode);
// Writes the marker of a checkpoint that has none, and was accepted because the
// user named its path.
Status WriteMissingMarker(const Place& directory);
// Returns FailedPrecondition "Found incomplete checkpoint at P."
Status IncompleteError(const Place& directory);

// Completes or undoes an interrupted overwrite at `final_place`: the checkpoint
// put aside gets its name back, or is removed if the new one is finished.
// Returns AlreadyExists while a save is writing there, and FailedPrecondition
// when both exist and neither is a leftover.
//
// In an object store the caller must hold a protected lease (BeginCommit), and
// `may_go_on` must renew it.
enum class Recovery : uint8_t { kNothing, kRestored, kRemoved };
Result<Recovery> RecoverReplaced(const Place& final_place,
                                 const MayGoOn& may_go_on = nullptr);

// Gives a checkpoint that an interrupted overwrite put aside its name back, if
// that is possible and no save is using the checkpoint. For readers that find
// nothing at a path in a file system.
void BringBack(const Place& final_place);
// Calls BringBack if nothing exists at the path, and returns the place to read:
// the path itself, or the checkpoint put aside if its name cannot be given
// back. Returns the path if neither exists.
Result<Place> PresentPlace(const Place& place);
// Returns the names in a directory of steps, including those brought back.
Result<std::vector<std::string>> ListBroughtBack(const Place& root);

}  // namespace holdfast
