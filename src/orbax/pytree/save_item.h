// Saves an item: first checks what must be refused, then calls the handlers,
// and then the engine.
//
// Thread-safety: one call at a time on one directory.
// Ownership: a PreparedSave owns what it needs, or borrows the item's arrays if
// it was made without a snapshot; its plan borrows its tree.
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
  bool is_copy = false;             // arrays were copied and may now change
  // The plan of parts.tree, if it is needed before the handlers write;
  // otherwise the writer makes it.
  std::optional<SavePlan> plan;
};

// Checks everything that can be checked without writing. With `is_async`, also
// takes a snapshot, if it is within the limit on its memory.
Result<std::shared_ptr<PreparedSave>> PrepareSave(
    const PyTreeSettings& settings, const std::string& directory,
    const PyTreeSaveArgs& args, std::optional<ProcessPart> part = std::nullopt,
    bool is_async = false);

// Removes an earlier item from the directory, and calls each handler of the
// groups. Returns the handlers' futures; none if this process is not the
// primary one. On failure, first waits for the calls that were begun.
Result<std::vector<CommitFuture>> SerializeGroups(const PreparedSave& prepared,
                                                  bool is_primary = true);

// Waits for `futures` and writes the rest of the item. Called by the one
// process that completes the item, after it has finalized the handlers.
Status WritePrepared(const PreparedSave& prepared,
                     const std::vector<CommitFuture>& futures);

}  // namespace holdfast
