// Decides which directories an overwrite may replace and a prune may remove:
// those whose contents show that they are checkpoints (CheckMayReplace and
// HoldsCheckpoint of holdfast/detail/commit.h). Other programs also have
// directories called "checkpoint" and files called "metadata".
//
// A file belongs to a checkpoint when `_HOLDFAST_DIGESTS` lists it, or when
// Orbax gives files in that place this name. Without digests, everything in the
// directory of an item that `_CHECKPOINT_METADATA` names belongs to the
// checkpoint as well, because a handler may write any files.
//
// Thread-safety: pure functions of the file system, or of a bucket.
// Errors: those of the file system, with the path.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "holdfast/detail/commit.h"
#include "holdfast/status.h"
#include "stores/place/place.h"

namespace holdfast {

// Like CheckMayReplace and HoldsCheckpoint, for a Place.
Status CheckMayReplacePlace(const Place& place);
Result<bool> PlaceHoldsCheckpoint(const Place& place);
// Like PlaceHoldsCheckpoint, but also reports whether Orbax would take the
// checkpoint for its own. Only such directories count as steps next to Orbax's.
enum class HeldFormat { kNone, kOrbax, kOther };
Result<HeldFormat> FormatHeldAt(const Place& place);
// Returns the entries of a checkpoint's directory that do not belong to the
// checkpoint, sorted; empty if the directory does not exist. FailedPrecondition
// for a directory that is neither a checkpoint nor empty.
Result<std::vector<std::string>> OtherFiles(const Place& place);

// The functions below also serve checks of other formats.

// Returns everything below a directory, sorted, except directories and nobody's
// files (stores/storage/nobodys_files.h). Links and devices are included,
// because they would be lost too.
Result<std::vector<std::string>> EntriesBelow(const Place& place);
// Returns true for names like "0.0" and "c/0/1".
bool IsZarrChunkName(std::string_view name);
// Returns the error that refuses to replace `path` because of `file`.
Status HoldsMoreError(const std::string& path, std::string_view file);

}  // namespace holdfast
