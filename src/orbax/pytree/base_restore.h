// Restores an item whose tree is recorded: matches the caller's item, reads,
// and rebuilds.
//
// Thread-safety: pure functions of the file system.
// Errors: those of PyTreeCheckpointHandler::Restore.
#pragma once

#include <set>
#include <string>

#include "holdfast/orbax/pytree_checkpoint_handler.h"
#include "orbax/pytree/item_source.h"
#include "orbax/pytree/leaf_reader.h"
#include "orbax/pytree/settings.h"

namespace holdfast {

Result<Tree> RestoreRecorded(const PyTreeSettings& settings,
                             const std::string& directory,
                             const BasePyTreeRestoreArgs& args);

// `entries` (from EntryTree), with tuples, named tuples and empties if they are
// recorded and requested.
Result<Tree> StoredStructure(const PyTreeSettings& settings,
                             const ItemSource& source, const Tree& entries);

// The fields of ParamInfo that all leaves of an opened item share; `source` may
// be null.
Result<ParamInfo> CommonRestoreInfo(const PyTreeSettings& settings,
                                    const std::string& directory,
                                    const ItemSource* source);
ReadContext MakeReadContext(const PyTreeSettings& settings,
                            const std::string& directory,
                            const ItemSource* source);
// InvalidArgument for arguments whose name is not among `names`.
Status CheckArgNames(const RestoreArgsMap& args,
                     const std::set<std::string>& names);

}  // namespace holdfast
