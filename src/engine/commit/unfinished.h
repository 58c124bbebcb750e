// Determines which directories hold a checkpoint whose save has not ended, or
// never will.
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

// The name that a checkpoint has while another is written in its place.
std::string ReplacedName(const std::string& name);
Place ReplacedPlace(const Place& place);
// The name that a checkpoint has while another, complete one is renamed into
// its place, on file systems that cannot exchange names (ReplaceDirectory of
// stores/storage/directory_ops.h).
Place MovedPlace(const Place& place);
// The original name behind either of these; absent for other names.
std::optional<std::string> NameOfReplaced(std::string_view name);

// Whether a directory contains nothing but files that were being written under
// hidden names: the remains of a save that had hardly begun.
Result<bool> HoldsNothing(const Place& directory);

bool HasCommitMarker(const Place& directory);
// Ok when there is no marker.
Status RemoveCommitMarker(const Place& directory);

// Whether the directory is marked as begun and not committed: its
// `_CHECKPOINT_METADATA` has the first time but not the second, and there is no
// marker.
bool IsBegunOnly(const Place& directory);

// Resolves kAuto for a path: in an object store nothing can be renamed, so it
// is kMarkerFile there, as in Orbax on gs://.
CommitMode ResolvedCommitMode(const Place& place, CommitMode mode);

// `Destination P already exists.`
Status DestinationExistsError(const Place& place);

// Whether a directory with this path would be a finished checkpoint: with
// kMarkerFile the marker must exist; with kRename the name must not be
// temporary; with kAuto, in addition, IsBegunOnly must be false. In an object
// store kAuto requires the marker, or the absence of all signs of a save or a
// removal: a checkpoint that another tool copied there must be found by its
// path.
bool IsFinished(const Place& directory, CommitMode mode);
// For a step of a root that was not requested by its path: with kAuto the
// marker must exist in an object store.
bool IsFinishedStep(const Place& directory, CommitMode mode);
// Writes the marker of a checkpoint that has none and counts because the user
// named its path.
Status WriteMissingMarker(const Place& directory);
// FailedPrecondition "Found incomplete checkpoint at P."
Status IncompleteError(const Place& directory);

// In an object store the caller holds the lease, protected, and `may_go_on`
// keeps it so.
// Completes or undoes an interrupted overwrite at `final_place`: the checkpoint
// put aside gets its name back, or is removed if the new one is finished.
// AlreadyExists while a save is writing there; FailedPrecondition when both
// exist and neither is a leftover.
enum class Recovery : uint8_t { kNothing, kRestored, kRemoved };
Result<Recovery> RecoverReplaced(const Place& final_place,
                                 const MayGoOn& may_go_on = nullptr);

// For readers that find nothing at a path of a file system: gives a checkpoint
// that an interrupted overwrite put aside its name back, if that is possible
// and no save is using it.
void BringBack(const Place& final_place);
// The place to read for this path after BringBack: the path itself, or a
// checkpoint put aside whose name cannot be given back. If there is neither,
// the path.
Result<Place> PresentPlace(const Place& place);
// The names in a directory of steps, including those brought back.
Result<std::vector<std::string>> ListBroughtBack(const Place& root);

}  // namespace holdfast
