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

#include "holdfast/orbax/pytree_checkpoint_handler.h"
#include "holdfast/pending_save.h"
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

// Calls each handler of the groups, if this is the process that does, in a
// directory without an earlier item; futures as they gave them. On failure
// those begun before are waited for.
Result<std::vector<CommitFuture>> SerializeGroups(const PreparedSave& prepared,
                                                  bool is_primary = true);

// Waits for `futures` and writes the rest. Of one process, which finalizes the
// handlers first, that makes the item complete; `part` is null then.
Status WritePrepared(const PreparedSave& prepared,
                     const std::vector<CommitFuture>& futures,
                     const ProcessPart* part = nullptr);

}  // namespace holdfast
