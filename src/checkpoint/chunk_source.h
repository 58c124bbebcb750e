// ChunkSource: the stored bytes of one located chunk, read in windows, and the
// checksum that covers them all.
//
// Reads in order are summed on the way; CheckDigest reads what they have left
// out.
// Thread-safety: one thread. Ownership: borrows the chunk, digest and token.
// Units: bytes. Errors: those of the store; Cancelled; DataLoss with both
// checksums.
#pragma once

#include <vector>

#include "base/cancel.h"
#include "checkpoint/digest_index.h"
#include "checkpoint/restore_plan.h"
#include "codec/codec.h"

namespace holdfast {

class ChunkSource final : public EncodedSource {
 public:
  // `byte_count` of the stored chunk; `digest` may be null.
  ChunkSource(const ObjectLocation& location, uint64_t byte_count,
              const ValueDigest* digest, const CancelToken& cancel)
      : location_(location),
        byte_count_(byte_count),
        digest_(digest),
        cancel_(cancel) {}

  uint64_t byte_count() const override { return byte_count_; }
  Status ReadAt(uint64_t offset, std::span<char> target) override;

  // Ok without a digest. After the last ReadAt.
  Status CheckDigest();
  // The failure of a read, which is no property of the bytes.
  const Status& read_status() const { return read_status_; }

 private:
  const ObjectLocation& location_;
  const uint64_t byte_count_;
  const ValueDigest* const digest_;
  const CancelToken& cancel_;
  uint64_t summed_bytes_ = 0;  // from the start on
  uint32_t crc_ = 0;
  Status read_status_;
};

// Decodes a chunk in pieces. False, with nothing taken, when it must be decoded
// whole. A digest that does not match is the error, whatever the codec says.
Result<bool> DecodeInPieces(ChunkSource& source, const ChunkCodec& codec,
                            size_t piece_bytes, const DecodedTarget& target,
                            CodecContext& context);

}  // namespace holdfast
