// Restores with a changed tree, and restores of older items: items without
// `_METADATA`, or with values in a msgpack file.
//
// The caller's item and the stored tree may differ here. Only the leaves that
// the item asks for must exist.
// Thread-safety: pure function of the file system.
// Errors: those of PyTreeCheckpointHandler::Restore.
#pragma once

#include <string>

#include "holdfast/orbax/pytree_checkpoint_handler.h"
#include "orbax/pytree/settings.h"

namespace holdfast {

Result<Tree> RestoreLegacy(const PyTreeSettings& settings,
                           const std::string& directory,
                           const PyTreeRestoreArgs& args);

}  // namespace holdfast
