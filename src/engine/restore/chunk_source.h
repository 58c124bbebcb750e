// ChunkSource: the stored bytes of one located chunk, read in windows.
//
// Thread-safety: one thread. Ownership: borrows the chunk and the token.
// Units: bytes.
// Errors: those of the store; Cancelled.
#pragma once

#include "engine/restore/restore_plan.h"
#include "formats/codec/codec.h"
#include "ground/base/cancel.h"

namespace holdfast {

class ChunkSource final : public EncodedSource {
 public:
  // `byte_count` is the size of the stored chunk.
  ChunkSource(const ObjectLocation& location, uint64_t byte_count,
              const CancelToken& cancel)
      : location_(location), byte_count_(byte_count), cancel_(cancel) {}

  uint64_t byte_count() const override { return byte_count_; }
  Status ReadAt(uint64_t offset, std::span<char> target) override;

  // Returns the failure of a read, as opposed to damage in the bytes.
  const Status& read_status() const { return read_status_; }

 private:
  const ObjectLocation& location_;
  const uint64_t byte_count_;
  const CancelToken& cancel_;
  Status read_status_;
};

// Decodes a chunk in pieces. Returns false, with nothing consumed, if the chunk
// must be decoded in one go. If a read fails, its error is returned, whatever
// the codec says.
Result<bool> DecodeInPieces(ChunkSource& source, const ChunkCodec& codec,
                            size_t piece_bytes, const DecodedTarget& target,
                            CodecContext& context);

}  // namespace holdfast
