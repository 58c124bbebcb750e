#include "engine/save/chunk_compression.h"

namespace holdfast {
namespace {

// Smaller chunks gain nothing from planes; larger ones would have to be held in
// memory completely.
constexpr size_t kPlanesChunkBytesMin = 4 << 10;
constexpr size_t kPlanesChunkBytesMax = 64 << 20;

bool FitsPlanes(DType dtype, const Shape& chunk_shape) {
  const size_t item_bytes = DTypeBytes(dtype);
  const size_t chunk_bytes = ElementCount(chunk_shape) * item_bytes;
  return item_bytes > 1 && chunk_bytes >= kPlanesChunkBytesMin &&
         chunk_bytes <= kPlanesChunkBytesMax;
}

}  // namespace

zarr::Compression ChunkCompression(Compression compression, DType dtype,
                                   const Shape& chunk_shape) {
  switch (compression) {
    case Compression::kPlanes:
      return FitsPlanes(dtype, chunk_shape) ? zarr::Compression::kPlanes
                                            : zarr::Compression::kZstd;
    case Compression::kZstd:
      return zarr::Compression::kZstd;
    case Compression::kFast:
      return zarr::Compression::kFast;
    case Compression::kNone:
      break;
  }
  return zarr::Compression::kNone;
}

}  // namespace holdfast
