// Saving an item: what is refused first, then the handlers, then the engine.
//
// Thread-safety: one call at a time on one directory.
// Ownership: a PreparedSave owns what it needs, or borrows the item's arrays
// where it was made without a snapshot.
// Errors: those of PyTreeCheckpointHandler.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "holdfast/pytree_checkpoint_handler.h"
#include "holdfast/status.h"
#include "pytree/handler_groups.h"
#include "pytree/settings.h"

namespace holdfast {

struct PreparedSave {
  std::string directory;
  SaveParts parts;
  SaveOptions options;
};

// Checks everything that can be checked without writing.
Result<PreparedSave> PrepareSave(const PyTreeSettings& settings,
                                 const std::string& directory,
                                 const PyTreeSaveArgs& args);

// Calls each handler of the groups, in a directory without an earlier item;
// futures as they gave them. On failure those
// begun before are waited for.
Result<std::vector<CommitFuture>> SerializeGroups(const PreparedSave& prepared);

// Waits for `futures`, finalizes the handlers and writes the rest, which makes
// the item complete.
Status WritePrepared(const PreparedSave& prepared,
                     const std::vector<CommitFuture>& futures);

}  // namespace holdfast
