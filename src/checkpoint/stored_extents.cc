#include "checkpoint/stored_extents.h"

#include <optional>

#include "base/status_macros.h"
#include "checkpoint/restore/array_index.h"
#include "checkpoint/restore/locate.h"
#include "zarr/format/chunk_key.h"

namespace holdfast {
namespace {

LeafExtents WhyNot(std::string why) { return {std::move(why), {}}; }

// What a shard of one raw chunk has behind it: a row of the index for each
// chunk, and the index's checksums.
std::optional<uint64_t> ShardIndexBytes(const zarr::ArrayMetadata& metadata) {
  const zarr::ShardingParams& sharding = *metadata.sharding;
  const Shape shard =
      zarr::Permute(metadata.chunk_shape, ChunkPermutation(metadata));
  const bool is_one_chunk =
      sharding.chunk_shape == shard && sharding.transposes.empty() &&
      sharding.index_location == zarr::IndexLocation::kEnd;
  if (!is_one_chunk) return std::nullopt;
  return 16 + 4 * static_cast<uint64_t>(sharding.index_crc32c_count);
}

// Between the elements of a whole chunk, in bytes, for the axes of the array.
Shape ChunkStrides(const zarr::ArrayMetadata& metadata) {
  const std::vector<int> order = ChunkPermutation(metadata);
  const Shape stored = ContiguousStrides(
      zarr::Permute(metadata.chunk_shape, order), DTypeBytes(metadata.dtype));
  Shape strides(stored.size());
  for (size_t i = 0; i < stored.size(); ++i) strides[order[i]] = stored[i];
  return strides;
}

}  // namespace

Result<LeafExtents> ExtentsOf(const Checkpoint& checkpoint, size_t leaf) {
  if (const auto* stored = dynamic_cast<const StoredExtents*>(&checkpoint)) {
    return stored->ExtentsOf(leaf);
  }
  return WhyNot("the format " + checkpoint.info().format +
                " does not say where its elements lie");
}

Result<LeafExtents> ExtentsOfChunks(const ArrayHome& home,
                                    const ReadableArray& array) {
  const ArrayLayout& layout = *array.layout;
  const zarr::ArrayMetadata& metadata = layout.format.metadata;
  if (layout.codec_count != 0) {
    return WhyNot("compressed with " + layout.codecs_text);
  }
  uint64_t index_bytes = 0;
  if (metadata.sharding) {
    const std::optional<uint64_t> bytes = ShardIndexBytes(metadata);
    if (!bytes) return WhyNot("several chunks a shard");
    index_bytes = *bytes;
  }
  HF_RETURN_IF_ERROR(CheckChunkCount(array.name, layout.grid.ChunkCount()));
  const Endian endian =
      metadata.sharding ? metadata.sharding->endian : metadata.endian;
  LeafExtents found;
  for (int64_t i = 0; i < layout.grid.ChunkCount(); ++i) {
    const Shape index = layout.grid.ChunkIndex(i);
    const std::string key =
        zarr::ChunkKey(std::string(array.prefix), metadata, index);
    Result<ObjectLocation> place = home.array_store().Locate(key);
    if (place.ok() && place->byte_count == kToEnd) {
      // A file of its own, which may not be there.
      const Result<ObjectInfo> file = place->store->Stat(place->key);
      if (!file.ok()) place = file.status();
      if (file.ok()) place->byte_count = file->byte_count - place->offset;
    }
    if (place.status().code() == StatusCode::kNotFound) {
      return WhyNot("chunks that were never stored");
    }
    HF_RETURN_IF_ERROR(place.status());
    if (place->inline_value) return WhyNot("in a node of the database");
    if (place->byte_count != layout.chunk_bytes + index_bytes) {
      return DataLossError("leaf " + std::string(array.name) + ": chunk " +
                           key + " has " + std::to_string(place->byte_count) +
                           " bytes, want " +
                           std::to_string(layout.chunk_bytes + index_bytes));
    }
    found.extents.push_back({layout.grid.ChunkBox(index),
                             place->store->Describe(place->key), place->offset,
                             ChunkStrides(metadata), endian == Endian::kBig});
  }
  return found;
}

}  // namespace holdfast
