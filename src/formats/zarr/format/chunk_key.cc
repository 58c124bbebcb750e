#include "formats/zarr/format/chunk_key.h"

#include <cassert>

#include "ground/base/text.h"

namespace holdfast::zarr {
namespace {

// Parses a decimal number without leading zeros.
std::optional<int64_t> ParseIndex(std::string_view text) {
  if (text.empty() || (text.size() > 1 && text[0] == '0') || text[0] == '-') {
    return std::nullopt;
  }
  return ParseNumber<int64_t>(text);
}

// Removes the first part, up to the separator, from `key` and returns it.
std::string_view TakePart(std::string_view& key, char separator) {
  const size_t end = key.find(separator);
  const std::string_view part = key.substr(0, end);
  key.remove_prefix(end == std::string_view::npos ? key.size() : end + 1);
  return part;
}

bool InGrid(const ArrayMetadata& metadata, size_t dimension, int64_t index) {
  const int64_t extent = metadata.shape[dimension];
  const int64_t chunk = metadata.chunk_shape[dimension];
  // The last chunk starts below the extent; written so that nothing overflows.
  return extent > 0 && index <= (extent - 1) / chunk;
}

}  // namespace

std::string ChunkKey(std::string_view prefix, const ArrayMetadata& metadata,
                     const Shape& index) {
  assert(index.size() == metadata.shape.size());
  const ChunkKeyEncoding& encoding = metadata.chunk_key_encoding;
  const bool is_default = encoding.kind == ChunkKeyEncoding::Kind::kDefault;
  std::string key(prefix);
  if (is_default) key += 'c';
  if (!is_default && index.empty()) key += '0';
  for (size_t i = 0; i < index.size(); ++i) {
    if (i > 0 || is_default) key += encoding.separator;
    key += std::to_string(index[i]);
  }
  return key;
}

std::optional<Shape> ParseChunkKey(const ArrayMetadata& metadata,
                                   std::string_view key) {
  const ChunkKeyEncoding& encoding = metadata.chunk_key_encoding;
  const size_t rank = metadata.shape.size();
  const bool is_default = encoding.kind == ChunkKeyEncoding::Kind::kDefault;
  if (rank == 0) {
    if (key != (is_default ? "c" : "0")) return std::nullopt;
    return Shape();
  }
  if (is_default && TakePart(key, encoding.separator) != "c") {
    return std::nullopt;
  }
  Shape index;
  for (size_t i = 0; i < rank; ++i) {
    const bool has_next =
        key.find(encoding.separator) != std::string_view::npos;
    if (has_next != (i + 1 < rank)) return std::nullopt;
    const auto value = ParseIndex(TakePart(key, encoding.separator));
    if (!value || !InGrid(metadata, i, *value)) return std::nullopt;
    index.push_back(*value);
  }
  return index;
}

}  // namespace holdfast::zarr
