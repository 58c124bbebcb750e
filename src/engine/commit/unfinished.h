// Which directories hold a checkpoint whose save has not ended, or never will.
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

// The name of a checkpoint while another grows in its place.
std::string ReplacedName(const std::string& name);
Place ReplacedPlace(const Place& place);
// The same while another, which is whole, is renamed into its place: on file
// systems that cannot exchange names (ReplaceDirectory of
// stores/storage/directory_ops.h).
Place MovedPlace(const Place& place);
// The name it had, by either of these; absent for other names.
std::optional<std::string> NameOfReplaced(std::string_view name);

// Whether there is nothing in a directory but files that were being written
// under hidden names: what is left of a save that had hardly begun.
Result<bool> HoldsNothing(const Place& directory);

bool HasCommitMarker(const Place& directory);
// Ok when there is no marker.
Status RemoveCommitMarker(const Place& directory);

// Whether the directory says of itself that it was begun and not committed:
// `_CHECKPOINT_METADATA` with the first time and without the second, and no
// marker.
bool IsBegunOnly(const Place& directory);

// The meaning of kAuto at a path: nothing can be renamed in an object store, so
// there it is kMarkerFile, as in Orbax on gs://.
CommitMode ResolvedCommitMode(const Place& place, CommitMode mode);

// `Destination P already exists.`
Status DestinationExistsError(const Place& place);

// Whether a directory of this path would be a finished checkpoint: with
// kMarkerFile the marker must be there, with kRename the name must not be
// temporary, with kAuto IsBegunOnly must not speak against it either. In an
// object store kAuto takes the marker, or the absence of all signs of a save or
// a removal: what other tools have copied there is to be found by its path.
bool IsFinished(const Place& directory, CommitMode mode);
// For a step of a root that was not asked for by its path: with kAuto the
// marker must be there in an object store.
bool IsFinishedStep(const Place& directory, CommitMode mode);
// Gives a marker to a checkpoint that has none and counts because its user
// named its path.
Status WriteMissingMarker(const Place& directory);
// FailedPrecondition "Found incomplete checkpoint at P."
Status IncompleteError(const Place& directory);

// In an object store the caller holds the lease, protected, and `may_go_on`
// keeps it so.
// Ends what an interrupted overwrite has begun at `final_place`: the checkpoint
// put aside gets its name back, or is removed when the new one is finished.
// AlreadyExists while a save is writing there;
// FailedPrecondition when both are there and neither is a leftover.
enum class Recovery : uint8_t { kNothing, kRestored, kRemoved };
Result<Recovery> RecoverReplaced(const Place& final_place,
                                 const MayGoOn& may_go_on = nullptr);

// For readers, who find nothing at a path of a file system: a checkpoint that
// an interrupted overwrite put aside gets its name back, where that is possible
// and no save is at it.
void BringBack(const Place& final_place);
// Where there is something for the path after that: the path itself, or a
// checkpoint put aside whose name cannot be given back. Otherwise the path.
Result<Place> PresentPlace(const Place& place);
// The names in a directory of steps, those brought back among them.
Result<std::vector<std::string>> ListBroughtBack(const Place& root);

}  // namespace holdfast
