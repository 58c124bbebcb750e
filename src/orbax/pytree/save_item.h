// Saving an item: what is refused first, then the handlers, then the engine.
//
// Thread-safety: one call at a time on one directory.
// Ownership: a PreparedSave owns what it needs, or borrows the item's arrays
// where it was made without a snapshot; its plan borrows its tree.
// Errors: those of PyTreeCheckpointHandler.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/save/save_plan.h"
#include "holdfast/orbax/pytree_checkpoint_handler.h"
#include "holdfast/pending_save.h"
#include "holdfast/status.h"
#include "orbax/pytree/handler_groups.h"
#include "orbax/pytree/settings.h"
#include "stores/place/place.h"

namespace holdfast {

struct PreparedSave {
  Place directory;
  SaveParts parts;
  SaveOptions options;
  std::optional<ProcessPart> part;  // absent: one process saves the item
  bool is_copy = false;             // of the item's arrays: they may change now
  // The plan of parts.tree, where it is needed before the handlers write; else
  // the writer makes it.
  std::optional<SavePlan> plan;
};

// Checks everything that can be checked without writing. With `is_async` takes
// a snapshot, where the bound on such memory allows it.
Result<std::shared_ptr<PreparedSave>> PrepareSave(
    const PyTreeSettings& settings, const std::string& directory,
    const PyTreeSaveArgs& args, std::optional<ProcessPart> part = std::nullopt,
    bool is_async = false);

// Calls each handler of the groups, if this is the process that does, in a
// directory without an earlier item; futures as they gave them. On failure
// those begun before are waited for.
Result<std::vector<CommitFuture>> SerializeGroups(const PreparedSave& prepared,
                                                  bool is_primary = true);

// Waits for `futures` and writes the rest. Called by one process, which
// finalizes the handlers first, that makes the item complete.
Status WritePrepared(const PreparedSave& prepared,
                     const std::vector<CommitFuture>& futures);

}  // namespace holdfast
