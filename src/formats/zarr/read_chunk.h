// Reads a part of one chunk from a Store, and no more bytes than needed: byte
// ranges of uncompressed chunks, the index and the touched inner chunks of
// shards, otherwise the complete object.
//
// Thread-safety: a ChunkFormat is immutable; ReadChunkBox may run concurrently
// with different targets and contexts.
// Ownership: a ChunkFormat owns its codec; the store is borrowed.
// Units: boxes in elements, within the chunk.
// Errors: NotFound when the store has no such object (the caller decides
// whether that means the fill value) or, under MissingChunks::kRefuse, when an
// inner chunk is not stored; DataLoss for damaged bytes; those of the store.
// Messages begin with `Error reading "<place of the key>"`.
#pragma once

#include <memory>
#include <string_view>

#include "formats/zarr/chunk_codec.h"
#include "formats/zarr/shard_codec.h"
#include "ground/base/cancel.h"
#include "ground/tensor/box.h"
#include "stores/storage/store.h"

namespace holdfast::zarr {

// Everything that the chunks of one array have in common.
struct ChunkFormat {
  ArrayMetadata metadata;
  ChunkCodecOptions options;
  std::shared_ptr<const ChunkCodec> codec;
  const ShardCodec* shard = nullptr;  // `codec`, if it is a ShardCodec
  // True if a chunk's stored bytes are its elements in C order as in memory.
  bool is_raw = false;
  // True if they are one blosc container of the same, or a shard with one such
  // container.
  bool is_blosc = false;
};
// Returns the container in a chunk's stored bytes. REQUIRES: format.is_blosc.
Result<std::string_view> BloscContainerIn(const ChunkFormat& format,
                                          std::string_view stored);
Result<ChunkFormat> MakeChunkFormat(const ArrayMetadata& metadata,
                                    const ChunkCodecOptions& options = {});

// REQUIRES: box not empty and within the chunk; target has its shape and the
// array's dtype.
Status ReadChunkBox(Store& store, std::string_view key,
                    const ChunkFormat& format, const Box& box,
                    const ArrayView& target, CodecContext& context,
                    const CancelToken* cancel = nullptr);

}  // namespace holdfast::zarr
