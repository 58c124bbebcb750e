// Checkpoints that are saved part by part, as in orbax.checkpoint.v1.partial.
//
// Each save adds a part to a session, the directory `<path>.partial_save`: a
// directory `<name>.pending_<...>_<id>` that holds items. Finalizing makes one
// checkpoint of all parts. Files are linked, not copied, where the file system
// can; the session is unchanged until the checkpoint exists.
//
// Thread-safety: one call per session at a time. Ownership: none.
// Errors: AlreadyExists for a file that two parts have, or for a checkpoint at
// the path; FailedPrecondition `Key "('a',)" was found in a previous partial
// save ...REPLACEMENT.` for a leaf that two parts have; InvalidArgument and
// DataLoss for damaged files; those of the file system.
#pragma once

#include <string>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

// FailedPrecondition if one of these key paths was saved in the session before,
// or is below or above a saved one. Ok without a session.
Status CheckPartialSaveKeys(const std::string& session,
                            const std::vector<std::vector<std::string>>& keys);

// Removes the files of a part that finalizing creates anew, and those that
// Orbax could not merge.
Status PreparePartialSave(const std::string& part);

// Makes one checkpoint at `path` of all parts of a session, and removes the
// session.
Status FinalizePartialSave(const std::string& session, const std::string& path);

}  // namespace holdfast
