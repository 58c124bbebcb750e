// Checkpoints that are saved part by part, as in orbax.checkpoint.v1.partial.
//
// A session is the directory `<path>.partial_save`. Each save adds a part to
// it: a directory `<name>.pending_<...>_<id>` that holds items. Finalizing
// makes one checkpoint of all parts. Files are linked rather than copied if the
// file system can link; the session is unchanged until the checkpoint exists.
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

// Fails with FailedPrecondition if one of these key paths, a prefix of one, or
// a path below one was already saved in the session. Ok if the session does not
// exist.
Status CheckPartialSaveKeys(const std::string& session,
                            const std::vector<std::vector<std::string>>& keys);

// Removes from a part the files that finalizing creates anew, and files that
// Orbax could not merge.
Status PreparePartialSave(const std::string& part);

// Makes one checkpoint at `path` from all parts of a session, and removes the
// session.
Status FinalizePartialSave(const std::string& session, const std::string& path);

}  // namespace holdfast
