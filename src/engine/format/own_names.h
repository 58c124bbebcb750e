// Names that are reserved for a checkpoint's own files and directories, and
// that users' files next to its items may not have.
//
// Thread-safety: pure functions.
#pragma once

#include <string_view>

namespace holdfast {

// Whether a file at `path`, relative to a checkpoint of items and outside these
// items, would be a file by which a checkpoint or an item is recognized or
// read, or would be in a directory with such a name: "_METADATA",
// "x/_CHECKPOINT_METADATA", "ocdbt.process_0/d/1".
bool IsOwnFilePath(std::string_view path);

}  // namespace holdfast
