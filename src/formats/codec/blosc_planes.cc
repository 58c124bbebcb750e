// For ZSTD_c_literalCompressionMode, which all releases since 1.4.0 have.
#define ZSTD_STATIC_LINKING_ONLY
#include "formats/codec/blosc_planes.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <vector>

#include "formats/codec/blosc_filters.h"
#include "formats/codec/blosc_header.h"
#include "formats/codec/codec_context.h"
#include "formats/codec/compressibility.h"
#include "formats/codec/zstd_codec.h"
#include "formats/codec/zstd_frame.h"
#include "formats/codec/zstd_literals.h"
#include "ground/base/coding.h"
#include "ground/base/status_macros.h"
#include "ground/base/xxh64.h"

namespace holdfast {
namespace {

// A plane is at most one zstd block. Larger blocks would save nothing. Smaller
// blocks would let slices decode less, but would repeat trees and headers.
constexpr size_t kPlaneBytesMax = kZstdBlockBytesMax;

// How planes are searched for strings at the lowest level. In planes of
// exponents, strings of up to 6 bytes repeat by chance, and a reference to such
// a string takes more room than its Huffman codes. Planes of mantissas are
// noise, which the search skips. Trained weights, moments and embeddings shrink
// about as much as with zstd level 1 and its own choices (0.665, 0.826 and
// 0.501 of raw; zstd: 0.683, 0.824 and 0.481) in 0.5 to 0.65 of the time. Small
// blocks, such as counters and tables of indices, take almost no time, so they
// are searched well.
constexpr int kSearchLevel = -8;
constexpr size_t kSearchedWellBytesMax = size_t{128} << 10;
constexpr int kSearchBytesMin = 7;

size_t BlockBytesFor(size_t decoded_bytes, size_t item_bytes) {
  return std::max<size_t>(1,
                          std::min(decoded_bytes, kPlaneBytesMax * item_bytes));
}

// Returns the bytes that a block takes besides its planes, all stored: a frame,
// its size and its offset, an empty block (see MakeLonger), and a rest that is
// smaller than an item.
size_t BlockOverheadBytes(size_t item_bytes) {
  return 2 * kBloscWordBytes + kZstdHeaderBytesMax + kZstdChecksumBytes +
         (item_bytes + 2) * kZstdBlockHeaderBytes;
}

class PlanesEncoder {
 public:
  PlanesEncoder(const BloscHeader& header, int clevel, std::span<char> out,
                CodecContext& context)
      : header_(header),
        clevel_(clevel),
        out_(out),
        context_(context),
        writers_(header.item_bytes) {}

  Result<size_t> Encode(std::string_view in) {
    at_ = kBloscHeaderBytes + header_.block_count() * kBloscWordBytes;
    // If strings repeat, the items already show it. Only then is each block
    // examined.
    may_search_ = MatchSavingOf(in) >= kMatchSavingMin || HasDistantRepeat(in);
    HF_RETURN_IF_ERROR(
        ReserveOrFail(header_.block_bytes, context_.impl().filter));
    for (size_t block = 0; block < header_.block_count(); ++block) {
      HF_RETURN_IF_ERROR(context_.impl().CheckCancel());
      StoreBloscWord(at_,
                     out_.data() + kBloscHeaderBytes + block * kBloscWordBytes);
      HF_RETURN_IF_ERROR(EncodeBlock(
          in.substr(block * header_.block_bytes, header_.BytesOfBlock(block))));
    }
    WriteBloscHeader(header_, at_, out_.data());
    return at_;
  }

 private:
  Status EncodeBlock(std::string_view in) {
    const std::string_view planes = PlanesOf(in);
    char* const frame = out_.data() + at_ + kBloscWordBytes;
    size_t byte_count = 0;
    const double saving = may_search_ ? SavingToBeat(planes) : 1;
    if (saving < 1) {
      HF_ASSIGN_OR_RETURN(byte_count, Search(planes, saving, frame));
    }
    has_found_ = byte_count != 0;
    if (byte_count == 0) byte_count = WriteFrame(planes, frame);
    StoreBloscWord(byte_count, out_.data() + at_);
    at_ += kBloscWordBytes + byte_count;
    return Status();
  }

  std::string_view PlanesOf(std::string_view in) {
    if (header_.item_bytes == 1) return in;
    char* const scratch = context_.impl().filter.data();
    ShuffleBytes(header_.item_bytes, in, scratch);
    return {scratch, in.size()};
  }

  double MatchSavingOf(std::string_view in) const {
    return EstimateMatchSaving(in, context_, kSearchLevel, kSearchBytesMin);
  }

  // Returns the saving of coding bytes one by one, if a search for strings may
  // save more; otherwise 1. If the last search paid off, the estimate for
  // strings is skipped, because it costs a quarter of a search.
  double SavingToBeat(std::string_view planes) const {
    if (has_found_) return EstimateLiteralSaving(planes);
    const double match_saving = MatchSavingOf(planes);
    const bool has_distant = HasDistantRepeat(planes);
    if (match_saving < kMatchSavingMin && !has_distant) return 1;
    const double literal_saving = EstimateLiteralSaving(planes);
    const bool is_worth_it =
        has_distant || match_saving > literal_saving + kMatchSavingMin;
    return is_worth_it ? literal_saving : 1;
  }

  // Writes libzstd's frame. Returns 0 when it saves less than `saving_min`.
  Result<size_t> Search(std::string_view planes, double saving_min,
                        char* frame) {
    ZSTD_CCtx* const compressor = context_.impl().ZstdCompressor();
    if (compressor == nullptr) {
      return ResourceExhaustedError("zstd: no memory for a context");
    }
    ZSTD_CCtx_reset(compressor, ZSTD_reset_session_and_parameters);
    (void)ZSTD_CCtx_setParameter(compressor, ZSTD_c_checksumFlag, 1);
    const bool is_quick = clevel_ == 1 && planes.size() > kSearchedWellBytesMax;
    (void)ZSTD_CCtx_setParameter(compressor, ZSTD_c_compressionLevel,
                                 is_quick ? kSearchLevel : 2 * clevel_ - 1);
    if (is_quick) {
      (void)ZSTD_CCtx_setParameter(compressor, ZSTD_c_minMatch,
                                   kSearchBytesMin);
      (void)ZSTD_CCtx_setParameter(compressor, ZSTD_c_literalCompressionMode,
                                   ZSTD_ps_enable);
    }
    // A frame as large as its content would be taken for the content itself.
    const auto bytes_max =
        std::min(planes.size() - 1,
                 static_cast<size_t>(static_cast<double>(planes.size()) *
                                     (1 - saving_min)));
    const size_t result = ZSTD_compress2(compressor, frame, bytes_max,
                                         planes.data(), planes.size());
    return ZSTD_isError(result) ? 0 : result;
  }

  size_t WriteFrame(std::string_view planes, char* frame) {
    const size_t plane_bytes = planes.size() / header_.item_bytes;
    const size_t rest_bytes = planes.size() % header_.item_bytes;
    char* p = frame + WriteZstdFrameHeader(planes.size(), true, frame);
    char* last_block = p;
    Xxh64 hash;
    for (size_t k = 0; plane_bytes > 0 && k < header_.item_bytes; ++k) {
      const std::string_view plane =
          planes.substr(k * plane_bytes, plane_bytes);
      const bool is_last = k + 1 == header_.item_bytes && rest_bytes == 0;
      last_block = p;
      writers_[k].ForgetFrame();
      p += writers_[k].Write(plane, is_last, p);
      hash.Update(plane);
    }
    if (rest_bytes > 0) {
      const std::string_view rest = planes.substr(planes.size() - rest_bytes);
      last_block = p;
      p += LiteralsWriter().Write(rest, true, p);
      hash.Update(rest);
    }
    const size_t byte_count = p - frame + kZstdChecksumBytes;
    if (byte_count == planes.size()) p = MakeLonger(last_block, p);
    StoreLittle(p, static_cast<uint32_t>(hash.Digest()));
    return p - frame + kZstdChecksumBytes;
  }

  // Adds an empty block, so that the frame is not as large as its content. A
  // reader would take such a frame for the content itself.
  static char* MakeLonger(char* last_block, char* end) {
    *last_block = static_cast<char>(*last_block & ~1);
    return end +
           WriteZstdBlockHeader(ZstdBlockType::kRaw, 0, /*is_last=*/true, end);
  }

  const BloscHeader& header_;
  const int clevel_;
  const std::span<char> out_;
  CodecContext& context_;
  std::vector<LiteralsWriter> writers_;  // one for each plane
  bool may_search_ = false;
  bool has_found_ = false;  // strings in the last block
  size_t at_ = 0;           // the bytes written
};

// Decodes one frame of planes.
class PlanesDecoder {
 public:
  PlanesDecoder(size_t item_bytes, std::span<char> out, CodecContext& context)
      : item_bytes_(item_bytes),
        plane_bytes_(out.size() / item_bytes),
        out_(out),
        context_(context),
        decoder_(context.impl().huffman_tables) {}

  bool Decode(std::string_view frame) {
    const auto info = InspectZstdHeader(frame);
    if (!info.ok() || info->content_bytes != out_.size() ||
        !HasOnlyLiterals(frame, *info) ||
        !ReserveOrFail(out_.size(), context_.impl().filter).ok()) {
      return false;
    }
    planes_in_scratch_ = context_.impl().filter.data();
    for (size_t k = 0; k < item_bytes_; ++k) {
      planes_[k] = planes_in_scratch_ + k * plane_bytes_;
    }
    const bool compares_checksum =
        info->has_checksum && !context_.impl().bytes_are_known;
    LiteralsReader reader(frame.substr(info->header_bytes));
    LiteralBlock block;
    for (size_t at = 0; !block.is_last; at += block.decoded_bytes) {
      reader.Next(block);
      if (!TakeBlock(block, at, compares_checksum)) return false;
    }
    if (compares_checksum && LoadLittle<uint32_t>(reader.rest().data()) !=
                                 static_cast<uint32_t>(hash_.Digest())) {
      return false;
    }
    JoinPlanes(item_bytes_, plane_bytes_, planes_.data(), out_.data());
    const size_t joined_bytes = item_bytes_ * plane_bytes_;
    std::copy(planes_in_scratch_ + joined_bytes,
              planes_in_scratch_ + out_.size(), out_.data() + joined_bytes);
    return true;
  }

 private:
  bool HasOnlyLiterals(std::string_view frame,
                       const ZstdFrameInfo& info) const {
    LiteralsReader reader(frame.substr(info.header_bytes));
    LiteralBlock block;
    size_t decoded_bytes = 0;
    while (!block.is_last) {
      if (!reader.Next(block) || block.decoded_bytes > info.window_bytes) {
        return false;
      }
      decoded_bytes += block.decoded_bytes;
    }
    const size_t rest_bytes = info.has_checksum ? kZstdChecksumBytes : 0;
    return decoded_bytes == out_.size() && reader.rest().size() == rest_bytes;
  }

  // Takes the next block. A stored plane stays where it is; any other block is
  // decoded into scratch.
  bool TakeBlock(const LiteralBlock& block, size_t at, bool hashes) {
    const bool is_plane =
        block.kind == LiteralBlock::Kind::kRaw && plane_bytes_ > 0 &&
        block.decoded_bytes == plane_bytes_ && at % plane_bytes_ == 0 &&
        at / plane_bytes_ < item_bytes_;
    std::string_view decoded = block.data;
    if (is_plane) {
      planes_[at / plane_bytes_] = block.data.data();
    } else {
      const std::span<char> part(planes_in_scratch_ + at, block.decoded_bytes);
      if (!decoder_.Decode(block, part)) return false;
      decoded = {part.data(), part.size()};
    }
    if (hashes) hash_.Update(decoded);
    return true;
  }

  const size_t item_bytes_;
  const size_t plane_bytes_;
  const std::span<char> out_;
  CodecContext& context_;
  LiteralsDecoder decoder_;
  char* planes_in_scratch_ = nullptr;
  std::array<const char*, kBloscItemBytesMax> planes_{};
  Xxh64 hash_;
};

}  // namespace

size_t BloscPlanesBytesMax(size_t decoded_bytes, size_t item_bytes) {
  const size_t block_bytes = BlockBytesFor(decoded_bytes, item_bytes);
  const size_t block_count = (decoded_bytes + block_bytes - 1) / block_bytes;
  return kBloscHeaderBytes + decoded_bytes +
         block_count * BlockOverheadBytes(item_bytes);
}

Result<size_t> EncodeBloscPlanes(std::string_view in, size_t item_bytes,
                                 int clevel, std::span<char> out,
                                 CodecContext& context) {
  assert(out.size() >= BloscPlanesBytesMax(in.size(), item_bytes));
  BloscHeader header;
  header.compressor = BloscCompressor::kZstd;
  header.flags = kBloscByteShuffle | kBloscOneStream;
  header.item_bytes = item_bytes;
  header.decoded_bytes = in.size();
  header.block_bytes = BlockBytesFor(in.size(), item_bytes);
  return PlanesEncoder(header, clevel, out, context).Encode(in);
}

bool DecodeBloscPlanes(std::string_view frame, size_t item_bytes,
                       std::span<char> out, CodecContext& context) {
  return PlanesDecoder(item_bytes, out, context).Decode(frame);
}

}  // namespace holdfast
