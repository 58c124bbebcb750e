#include "engine/restore/chunk_source.h"

#include "ground/base/status_macros.h"

namespace holdfast {

Status ChunkSource::ReadAt(uint64_t offset, std::span<char> target) {
  const RangeRead request{location_.key, location_.offset + offset, target};
  return read_status_ = location_.store->ReadBatch({&request, 1}, &cancel_);
}

Result<bool> DecodeInPieces(ChunkSource& source, const ChunkCodec& codec,
                            size_t piece_bytes, const DecodedTarget& target,
                            CodecContext& context) {
  Result<bool> decoded =
      codec.DecodeStream(source, piece_bytes, target, context);
  HF_RETURN_IF_ERROR(source.read_status());
  return decoded;
}

}  // namespace holdfast
