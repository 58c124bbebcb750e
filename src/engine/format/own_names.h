// Names that are reserved for a checkpoint's own files and directories, and
// that users' files next to its items may not have.
//
// Thread-safety: pure functions.
#pragma once

#include <string_view>

namespace holdfast {

// Returns whether a file at `path` would use a reserved name for itself or for
// one of its directories. A name is reserved if a checkpoint or an item is
// recognized or read by it. `path` is relative to a checkpoint of items, and
// outside its items. Examples: "_METADATA", "x/_CHECKPOINT_METADATA",
// "ocdbt.process_0/d/1".
bool IsOwnFilePath(std::string_view path);

}  // namespace holdfast
