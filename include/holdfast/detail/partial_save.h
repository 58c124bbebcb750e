// Checkpoints that are saved bit by bit, as orbax.checkpoint.v1.partial does.
//
// Each save leaves a part in a session, the directory `<path>.partial_save`: a
// directory `<name>.pending_<...>_<id>` that holds items. The end makes one
// checkpoint of all parts. Files are linked, not copied, where the file system
// can; the session stays as it is until the checkpoint exists.
//
// Thread-safety: one call a session at a time. Ownership: none.
// Errors: AlreadyExists for a file that two parts have, or a checkpoint at the
// path; FailedPrecondition `Key "('a',)" was found in a previous partial save
// ...REPLACEMENT.` for a leaf that two parts have; InvalidArgument and DataLoss
// for damaged files; those of the file system.
#pragma once

#include <string>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

// FailedPrecondition when one of these key paths was saved in the session, or
// lies in or above one that was. Ok without a session.
Status CheckPartialSaveKeys(const std::string& session,
                            const std::vector<std::vector<std::string>>& keys);

// Takes away what a part has and the end makes anew, and what Orbax would not
// know how to merge.
Status PreparePartialSave(const std::string& part);

// Makes a checkpoint at `path` of all parts of a session, and removes the
// session.
Status FinalizePartialSave(const std::string& session, const std::string& path);

}  // namespace holdfast
