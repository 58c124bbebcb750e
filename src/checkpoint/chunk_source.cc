#include "checkpoint/chunk_source.h"

#include <algorithm>

#include "base/crc32c.h"
#include "base/status_macros.h"

namespace holdfast {
namespace {

// Small enough that the bytes are still in the cache when they are summed.
constexpr size_t kSumBytes = 256 << 10;

}  // namespace

Status ChunkSource::ReadAt(uint64_t offset, std::span<char> target) {
  while (!target.empty()) {
    read_status_ = cancel_.Check();
    HF_RETURN_IF_ERROR(read_status_);
    const bool is_summed = digest_ != nullptr && offset == summed_bytes_;
    const bool is_remote = location_.store->requests_in_flight() > 1;
    const std::span<char> part =
        is_summed && !is_remote
            ? target.first(std::min(kSumBytes, target.size()))
            : target;
    read_status_ = location_.store->ReadInto(location_.key,
                                             location_.offset + offset, part);
    HF_RETURN_IF_ERROR(read_status_);
    if (is_summed) {
      crc_ = ExtendCrc32c(crc_, {part.data(), part.size()});
      summed_bytes_ += part.size();
    }
    offset += part.size();
    target = target.subspan(part.size());
  }
  return Status();
}

Status ChunkSource::CheckDigest() {
  if (digest_ == nullptr) return Status();
  std::vector<char> rest(
      std::min<uint64_t>(kSumBytes, byte_count_ - summed_bytes_));
  while (summed_bytes_ < byte_count_) {
    const uint64_t left = byte_count_ - summed_bytes_;
    HF_RETURN_IF_ERROR(
        ReadAt(summed_bytes_,
               std::span(rest).first(std::min<uint64_t>(left, rest.size()))));
  }
  return DigestIndex::CheckSum(
      {digest_->path, digest_->byte_count, digest_->crc32c},
      {digest_->path, byte_count_, crc_});
}

Result<bool> DecodeInPieces(ChunkSource& source, const ChunkCodec& codec,
                            size_t piece_bytes, const DecodedTarget& target,
                            CodecContext& context) {
  Result<bool> decoded =
      codec.DecodeStream(source, piece_bytes, target, context);
  HF_RETURN_IF_ERROR(source.read_status());
  const bool is_cancelled = decoded.status().code() == StatusCode::kCancelled;
  if (is_cancelled || (decoded.ok() && !*decoded)) return decoded;
  HF_RETURN_IF_ERROR(source.CheckDigest());
  return decoded;
}

}  // namespace holdfast
