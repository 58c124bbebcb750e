// ArrayLayout: everything that an array's metadata text says about its storage,
// parsed once and shared by all arrays with the same text.
//
// Thread-safety: layouts are immutable; the cache may be used from any thread.
// Errors: those of zarr's metadata parser, with the place as context.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "engine/check/value_sums.h"
#include "formats/zarr/format/metadata.h"
#include "formats/zarr/read_chunk.h"
#include "ground/tensor/grid.h"
#include "holdfast/options.h"

namespace holdfast {

struct ArrayLayout {
  zarr::ChunkFormat format;  // metadata and codec
  ChunkGrid grid;
  ValueKnownBy known_by = ValueKnownBy::kBlocks;  // a stored chunk
  std::string codecs_text;  // "zstd", "blosc lz4 bitshuffle", "none"
  size_t codec_count = 0;   // bytes->bytes codecs, inner ones included
  size_t chunk_bytes = 0;   // decoded bytes of one complete chunk
  std::string text;         // of .zarray or zarr.json, when it was parsed
};

Result<std::shared_ptr<const ArrayLayout>> MakeArrayLayout(
    const zarr::ArrayMetadata& metadata, MissingChunks missing);

class ArrayLayoutCache {
 public:
  // `missing` says how absent inner chunks are treated.
  explicit ArrayLayoutCache(MissingChunks missing) : missing_(missing) {}

  Result<std::shared_ptr<const ArrayLayout>> Get(std::string_view text);

 private:
  const MissingChunks missing_;
  std::mutex mutex_;
  // Ordered, because only an ordered map can be searched by string_view here.
  std::map<std::string, std::shared_ptr<const ArrayLayout>, std::less<>>
      layouts_;
};

}  // namespace holdfast
