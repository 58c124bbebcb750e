// ChunkSource: the stored bytes of one located chunk, read in windows.
//
// Thread-safety: one thread. Ownership: borrows the chunk and the token.
// Units: bytes. Errors: those of the store; Cancelled.
#pragma once

#include "engine/restore/restore_plan.h"
#include "formats/codec/codec.h"
#include "ground/base/cancel.h"

namespace holdfast {

class ChunkSource final : public EncodedSource {
 public:
  // `byte_count` of the stored chunk.
  ChunkSource(const ObjectLocation& location, uint64_t byte_count,
              const CancelToken& cancel)
      : location_(location), byte_count_(byte_count), cancel_(cancel) {}

  uint64_t byte_count() const override { return byte_count_; }
  Status ReadAt(uint64_t offset, std::span<char> target) override;

  // The failure of a read, which says nothing about the bytes.
  const Status& read_status() const { return read_status_; }

 private:
  const ObjectLocation& location_;
  const uint64_t byte_count_;
  const CancelToken& cancel_;
  Status read_status_;
};

// Decodes a chunk in pieces. False, with nothing taken, when it must be decoded
// whole. A read that fails is the error, whatever the codec says.
Result<bool> DecodeInPieces(ChunkSource& source, const ChunkCodec& codec,
                            size_t piece_bytes, const DecodedTarget& target,
                            CodecContext& context);

}  // namespace holdfast
