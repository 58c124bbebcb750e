// Restores that change the tree, and those of older items: no `_METADATA`, or
// values in a msgpack file.
//
// What the caller's item and the stored tree have not in common is no error
// here; only what the item asks for must exist.
// Thread-safety: pure function of the file system.
// Errors: those of PyTreeCheckpointHandler::Restore.
#pragma once

#include <string>

#include "holdfast/orbax/pytree_checkpoint_handler.h"
#include "pytree/settings.h"

namespace holdfast {

Result<Tree> RestoreLegacy(const PyTreeSettings& settings,
                           const std::string& directory,
                           const PyTreeRestoreArgs& args);

}  // namespace holdfast
