#include "engine/checkpoint/stored_extents.h"

#include <algorithm>
#include <optional>

#include "engine/restore/array_index.h"
#include "engine/restore/extent_read.h"
#include "engine/restore/locate.h"
#include "formats/zarr/format/chunk_key.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

LeafExtents WhyNot(std::string why) { return {std::move(why), {}}; }

// Returns the number of bytes after the single raw chunk of a shard: its index
// row and the index's checksums. Returns nullopt for any other shard.
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

// Returns the strides between the elements of a complete chunk, in bytes, by
// axes of the array.
Shape ChunkStrides(const zarr::ArrayMetadata& metadata) {
  const std::vector<int> order = ChunkPermutation(metadata);
  const Shape stored = ContiguousStrides(
      zarr::Permute(metadata.chunk_shape, order), DTypeBytes(metadata.dtype));
  Shape strides(stored.size());
  for (size_t i = 0; i < stored.size(); ++i) strides[order[i]] = stored[i];
  return strides;
}

PlainRun NoRun(std::string why) { return {std::move(why), "", 0}; }

// Returns whether the box's elements are contiguous in an array of `shape`.
bool IsRunOf(const Shape& shape, const Box& box) {
  size_t d = 0;
  while (d < shape.size() && box.shape[d] == 1) ++d;
  if (d == shape.size()) return true;
  return std::equal(box.shape.begin() + d + 1, box.shape.end(),
                    shape.begin() + d + 1);
}

// Returns the index of the box's first element, in C order.
uint64_t FirstElement(const Shape& shape, const Box& box) {
  uint64_t number = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    number = number * static_cast<uint64_t>(shape[d]) +
             static_cast<uint64_t>(box.origin[d]);
  }
  return number;
}

// Returns why an extent's elements are not in its file as they would be in
// memory; "" if they are.
std::string WhyNotPlain(DType dtype, const Shape& shape, const Extent& extent) {
  if (extent.is_big_endian && DTypeBytes(dtype) > 1) return "big endian";
  if (!IsPlainRange(extent, dtype, extent.box)) {
    return "its elements are in another order, or not contiguous";
  }
  return IsRunOf(shape, extent.box) ? "" : "in chunks that cut its rows";
}

}  // namespace

Result<LeafExtents> ExtentsOf(const Checkpoint& checkpoint, size_t leaf) {
  if (const auto* stored = dynamic_cast<const StoredExtents*>(&checkpoint)) {
    return stored->ExtentsOf(leaf);
  }
  return WhyNot("the format " + checkpoint.info().format +
                " does not say where its elements are");
}

const ValueDigest* DigestOf(const Checkpoint& checkpoint,
                            const std::string& file, uint64_t offset,
                            uint64_t byte_count) {
  const auto* stored = dynamic_cast<const StoredExtents*>(&checkpoint);
  if (stored == nullptr) return nullptr;
  return stored->DigestOf(file, offset, byte_count);
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
    if (!bytes) return WhyNot("several chunks per shard");
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
      // The chunk is a separate file, which may not exist.
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

PlainRun RunOf(DType dtype, const Shape& shape,
               std::span<const Extent> extents) {
  if (DTypeBits(dtype) < 8) return NoRun("elements narrower than a byte");
  // Only readers check the bytes of bools.
  if (dtype == DType::kBool) dtype = DType::kUint8;
  const auto element_bytes = static_cast<uint64_t>(DTypeBytes(dtype));
  std::vector<std::pair<uint64_t, const Extent*>> parts;  // by first element
  for (const Extent& extent : extents) {
    if (IsEmpty(extent.box)) continue;
    std::string why_not = WhyNotPlain(dtype, shape, extent);
    if (!why_not.empty()) return NoRun(std::move(why_not));
    parts.emplace_back(FirstElement(shape, extent.box), &extent);
  }
  std::sort(parts.begin(), parts.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  if (parts.empty()) return NoRun("in no file");
  const Extent& front = *parts.front().second;
  uint64_t done = 0;
  for (const auto& [first, extent] : parts) {
    if (first != done) return NoRun("parts of it are in no file");
    if (extent->file != front.file) return NoRun("in several files");
    if (extent->offset != front.offset + done * element_bytes) {
      return NoRun("in chunks that are not contiguous");
    }
    done += static_cast<uint64_t>(ElementCount(extent->box.shape));
  }
  if (done != static_cast<uint64_t>(ElementCount(shape))) {
    return NoRun("parts of it are in no file");
  }
  return {"", front.file, front.offset};
}

PlainRun PlainRunOf(DType dtype, const Shape& shape,
                    std::span<const Extent> extents) {
  if (dtype == DType::kBool) return NoRun("bools, which are checked when read");
  const PlainRun run = RunOf(dtype, shape, extents);
  const auto element_bytes = static_cast<uint64_t>(DTypeBytes(dtype));
  if (run.why_not.empty() && run.offset % element_bytes != 0) {
    return NoRun("at offset " + std::to_string(run.offset) +
                 ", no multiple of its elements' " +
                 std::to_string(element_bytes) + " bytes");
  }
  return run;
}

}  // namespace holdfast
