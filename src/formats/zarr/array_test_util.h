// Reads arrays for tests of writing, one chunk after the other: slow, but
// simple enough to be trusted.
#pragma once

#include <string>
#include <utility>

#include "formats/zarr/array.h"
#include "formats/zarr/format/chunk_key.h"
#include "formats/zarr/read_chunk.h"
#include "ground/tensor/copy.h"
#include "ground/tensor/grid.h"

namespace holdfast::zarr {

// Opens the array whose metadata is stored at `prefix`.
inline Result<Array> OpenForTest(Store* store, const std::string& prefix,
                                 ArrayOptions options = {}) {
  if (options.metadata_key.empty()) {
    const bool is_v3 = store->Stat(prefix + "zarr.json").ok();
    options.metadata_key = is_v3 ? "zarr.json" : ".zarray";
  }
  const Result<Bytes> text = store->Read(prefix + options.metadata_key);
  if (!text.ok()) return text.status();
  Result<ArrayMetadata> metadata = ParseMetadata(text->view());
  if (!metadata.ok()) return metadata.status();
  return Array::Assume(store, prefix, *metadata, options);
}

// Reads the box into `target`.
inline Status ReadForTest(Store& store, const Array& array, const Box& box,
                          const ArrayView& target,
                          MissingChunks missing = MissingChunks::kFill) {
  const ArrayMetadata& metadata = array.metadata();
  ChunkCodecOptions options;
  options.missing = missing;
  const Result<ChunkFormat> format = MakeChunkFormat(metadata, options);
  if (!format.ok()) return format.status();
  const ChunkGrid grid{metadata.shape, metadata.chunk_shape};
  CodecContext context;
  return ForEachChunk(grid, box, [&](const Shape& index) {
    const Box chunk = grid.ChunkBox(index);
    const Box common = *Intersect(chunk, box);
    const ArrayView view = Subview(target, Relative(common, box.origin));
    const Status read =
        ReadChunkBox(store, ChunkKey(array.prefix(), metadata, index), *format,
                     Relative(common, chunk.origin), view, context);
    const bool is_filled =
        read.code() == StatusCode::kNotFound && missing == MissingChunks::kFill;
    if (!is_filled) return read;
    FillStrided(view, metadata.fill_element.data());
    return Status();
  });
}

}  // namespace holdfast::zarr
