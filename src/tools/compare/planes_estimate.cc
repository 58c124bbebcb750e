#include "tools/compare/planes_estimate.h"

#include <algorithm>

#include "engine/save/chunk_compression.h"
#include "formats/zarr/chunk_codec.h"
#include "holdfast/tensor.h"

namespace holdfast {
namespace {

constexpr int64_t kSampleBytes = 512 << 10;

}  // namespace

uint64_t PlanesEstimate::Estimate(DType dtype, const char* elements,
                                  int64_t element_count) {
  const auto item_bytes = static_cast<int64_t>(DTypeBytes(dtype));
  const uint64_t raw_bytes = element_count * item_bytes;
  const Shape sample = {std::min(element_count, kSampleBytes / item_bytes)};
  if (sample[0] == 0) return 0;
  const auto codec = zarr::MakeChunkCodec(
      zarr::OrbaxV2(sample, dtype, sample,
                    ChunkCompression(Compression::kPlanes, dtype, sample)));
  if (!codec.ok()) return raw_bytes;
  auto context = contexts_.Take();
  const auto encoded = (*codec)->Encode(
      {dtype, elements, sample, ContiguousStrides(sample, item_bytes)},
      *context);
  if (!encoded.ok()) return raw_bytes;
  return encoded->byte_count * element_count / sample[0];
}

}  // namespace holdfast
