// Restores an item whose tree is recorded: matches it with the caller's item,
// reads the leaves, and rebuilds the tree.
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

// Returns `entries` (from EntryTree), with tuples, named tuples and empties if
// they are recorded and requested.
Result<Tree> StoredStructure(const PyTreeSettings& settings,
                             const ItemSource& source, const Tree& entries);

// Returns the fields of ParamInfo that all leaves of an opened item share.
// `source` may be null.
Result<ParamInfo> CommonRestoreInfo(const PyTreeSettings& settings,
                                    const std::string& directory,
                                    const ItemSource* source);
ReadContext MakeReadContext(const PyTreeSettings& settings,
                            const std::string& directory,
                            const ItemSource* source);
// Returns InvalidArgument if an argument has a name that is not in `names`.
Status CheckArgNames(const RestoreArgsMap& args,
                     const std::set<std::string>& names);

}  // namespace holdfast
