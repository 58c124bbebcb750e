// Which directories an overwrite may replace, and a prune take away: those that
// are checkpoints themselves, by what is in them (CheckMayReplace and
// HoldsCheckpoint of holdfast/detail/commit.h). Other programs, too, have
// directories called "checkpoint" and files called "metadata".
//
// A file is a checkpoint's when `_HOLDFAST_DIGESTS` lists it, or Orbax gives
// that name to a file in that place. Where there are no digests, also whatever
// is in the directory of an item that `_CHECKPOINT_METADATA` names: handlers
// write what they like.
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

// The questions of holdfast/detail/commit.h, of a place.
Status CheckMayReplacePlace(const Place& place);
Result<bool> PlaceHoldsCheckpoint(const Place& place);
// The same, and whether Orbax would take it for one of its own: only such
// directories are steps among Orbax's.
enum class HeldFormat { kNone, kOrbax, kOther };
Result<HeldFormat> FormatHeldAt(const Place& place);
// The entries of a checkpoint's directory that are not the checkpoint's,
// sorted; empty without a directory. FailedPrecondition for a directory that is
// neither a checkpoint nor empty.
Result<std::vector<std::string>> OtherFiles(const Place& place);

// For the same question of another format:
// Everything below a directory except directories, sorted, but nobody's files
// (stores/storage/nobodys_files.h): links and devices, too, would be lost.
Result<std::vector<std::string>> EntriesBelow(const Place& place);
// "0.0", "c/0/1".
bool IsZarrChunkName(std::string_view name);
// The refusal that names `file`.
Status HoldsMoreError(const std::string& path, std::string_view file);

}  // namespace holdfast
