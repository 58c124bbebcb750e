// Keys of an array's chunks (doc/zarr.md): "0.1", "c/0/1", or, for the only
// chunk of a rank-0 array, "0" or "c". A key in a store is the array's prefix
// ("" or "a.b/") followed by the chunk key.
//
// Thread-safety: pure functions. Units: chunk indices, outermost first.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/zarr/format/metadata.h"

namespace holdfast::zarr {

// Returns `prefix` + the chunk's key. REQUIRES: index has the array's rank.
std::string ChunkKey(std::string_view prefix, const ArrayMetadata& metadata,
                     const Shape& index);

// Returns the index of the chunk with this key (without prefix), or nullopt if
// no chunk of the array has exactly this key.
std::optional<Shape> ParseChunkKey(const ArrayMetadata& metadata,
                                   std::string_view key);

}  // namespace holdfast::zarr
