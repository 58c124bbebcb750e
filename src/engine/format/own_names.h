// Names that a checkpoint's own files and directories have, and no file of a
// user beside its items.
//
// Thread-safety: pure functions.
#pragma once

#include <string_view>

namespace holdfast {

// Whether a file at `path`, relative to a checkpoint of items and beside them,
// would be one of those by which a checkpoint or an item is told or read, or
// lie in a directory of such a name: "_METADATA", "x/_CHECKPOINT_METADATA",
// "ocdbt.process_0/d/1".
bool IsOwnFilePath(std::string_view path);

}  // namespace holdfast
