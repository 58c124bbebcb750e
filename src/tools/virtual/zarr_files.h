// A checkpoint's arrays as a zarr 2 group, uncompressed, with consolidated
// metadata and axis names for xarray.
//
// An array's .zarray and chunks are those that a conversion writes (Orbax's
// format, zarr 2, no OCDBT, no compression). Each item of a composite is its
// own group. Names are paths. A part of a name that no directory can have ("",
// ".", "..", and the group's own .zgroup and the like) gets a '_' appended, and
// NUL and backslash become %00 and %5C, so that a copy by names stays inside
// its directory. Dtypes that numpy lacks are left out of .zmetadata, because
// readers refuse a group that has any.
// Thread-safety: any thread. Ownership: shares the LeafBytes.
// Errors: those of planning a conversion, when the tree is made; those of
// Checkpoint::ReadInto, when it is read.
#pragma once

#include <memory>

#include "tools/virtual/file_tree.h"
#include "tools/virtual/leaf_bytes.h"

namespace holdfast {

Result<std::unique_ptr<FileTree>> MakeZarrFiles(
    std::shared_ptr<const LeafBytes> leaves);

}  // namespace holdfast
