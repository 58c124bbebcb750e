// Writing one whole chunk to a Store.
//
// Thread-safety: may run concurrently for different chunks.
// Ownership: everything is borrowed for the call.
// Errors: those of the codec and the store, with the key's place in front.
#pragma once

#include <string_view>

#include "formats/zarr/read_chunk.h"
#include "stores/storage/store.h"

namespace holdfast::zarr {

// Stores `chunk`, the part of the chunk inside the array. A chunk equal to the
// fill value is deleted instead when the format's options leave such out (never
// for v2 with a null fill value).
Status WriteChunk(Store& store, std::string_view key, const ChunkFormat& format,
                  const ConstArrayView& chunk, const WriteOptions& options,
                  CodecContext& context);

}  // namespace holdfast::zarr
