// Writes one complete chunk to a Store.
//
// Thread-safety: may run concurrently for different chunks.
// Ownership: everything is borrowed for the call.
// Errors: those of the codec and the store, prefixed with the key's place.
#pragma once

#include <string_view>

#include "formats/zarr/read_chunk.h"
#include "stores/storage/store.h"

namespace holdfast::zarr {

// Stores `chunk`, the part of the chunk inside the array. If the chunk equals
// the fill value and the format's options omit such chunks, it is deleted
// instead (never for v2 with a null fill value).
Status WriteChunk(Store& store, std::string_view key, const ChunkFormat& format,
                  const ConstArrayView& chunk, const WriteOptions& options,
                  CodecContext& context);

}  // namespace holdfast::zarr
