// Which directories are checkpoints whose save has not ended, or never will.
//
// Thread-safety: any thread. Ownership: none.
// Errors: those of the file system, with the path.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/options.h"
#include "holdfast/status.h"
#include "storage/unique_fd.h"

namespace holdfast {

// What a checkpoint is called while another takes its place.
std::string ReplacedName(const std::string& name);
// The name it had; absent for other names.
std::optional<std::string> NameOfReplaced(std::string_view name);

// Whether there is nothing in a directory but files that were being written
// under hidden names: what is left of a save that had hardly begun.
Result<bool> HoldsNothing(const std::string& directory);

bool HasCommitMarker(const std::string& directory);
// Ok when there is none.
Status RemoveCommitMarker(const std::string& directory);

// Whether the directory says of itself that it was begun and not committed:
// `_CHECKPOINT_METADATA` with the first time and without the second, and no
// marker.
bool IsBegunOnly(const std::string& directory);

// Whether a directory of this path would be a finished checkpoint: with
// kMarkerFile the marker must be there, with kRename the name must not be
// temporary, with kAuto IsBegunOnly must not speak against it either.
bool IsFinished(const std::string& directory, CommitMode mode);
// FailedPrecondition "Found incomplete checkpoint at P."
Status IncompleteError(const std::string& directory);

// Ends what an interrupted overwrite has begun at `final_path`: the checkpoint
// put aside gets its name back, or is removed when the new one is finished.
// AlreadyExists while a save is writing there;
// FailedPrecondition when both are there and neither is a leftover.
enum class Recovery : uint8_t { kNothing, kRestored, kRemoved };
Result<Recovery> RecoverReplaced(const std::string& final_path);

// Held by a living save on its directory. AlreadyExists while somebody else
// holds it. No guard on file systems without locks.
Result<UniqueFd> LockDirectory(const std::string& path);

}  // namespace holdfast
