#include "formats/zarr/write_chunk.h"

#include "ground/base/status_macros.h"
#include "ground/tensor/copy.h"

namespace holdfast::zarr {
namespace {

bool LeavesOut(const ChunkFormat& format, const ConstArrayView& chunk) {
  return !format.options.store_data_equal_to_fill_value &&
         !format.metadata.fill_is_null &&
         AllEqual(chunk, format.metadata.fill_element.data());
}

Status Write(Store& store, std::string_view key, const ChunkFormat& format,
             const ConstArrayView& chunk, const WriteOptions& options,
             CodecContext& context) {
  // An old chunk must not remain in place of the fill value.
  if (LeavesOut(format, chunk)) return store.Delete(key);
  HF_ASSIGN_OR_RETURN(const EncodedChunk encoded,
                      format.codec->Encode(chunk, context));
  // A shard without any inner chunk is not stored.
  if (encoded.pieces.empty()) return store.Delete(key);
  return store.Write(key, encoded.pieces, options);
}

}  // namespace

Status WriteChunk(Store& store, std::string_view key, const ChunkFormat& format,
                  const ConstArrayView& chunk, const WriteOptions& options,
                  CodecContext& context) {
  const Status status = Write(store, key, format, chunk, options, context);
  if (status.ok()) return status;
  return status.WithContext("Error writing \"" + store.Describe(key) + "\"");
}

}  // namespace holdfast::zarr
