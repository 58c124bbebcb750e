// Shows a checkpoint's arrays as an uncompressed zarr 2 group with consolidated
// metadata and axis names for xarray.
//
// An array's .zarray and chunks are the same that a conversion writes (Orbax's
// format, zarr 2, no OCDBT, no compression). Each item of a composite is its
// own group. Names are paths. A part that cannot be an array's or a group's
// name ("", ".", "..", and the group's own .zgroup and the like) gets a '_'
// appended. NUL and backslash become %00 and %5C. So a copy of the files by
// their names stays inside its directory. Dtypes that numpy lacks are left out
// of .zmetadata, because readers refuse a group that has any.
// Thread-safety: any thread. Ownership: shares the LeafBytes.
// Errors: when the tree is made, those of planning a conversion; when it is
// read, those of Checkpoint::ReadInto.
#pragma once

#include <memory>

#include "tools/virtual/file_tree.h"
#include "tools/virtual/leaf_bytes.h"

namespace holdfast {

Result<std::unique_ptr<FileTree>> MakeZarrFiles(
    std::shared_ptr<const LeafBytes> leaves);

}  // namespace holdfast
