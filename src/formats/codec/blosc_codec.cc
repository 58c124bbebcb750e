#include "formats/codec/blosc_codec.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <string>
#include <utility>

#include "formats/codec/blosc_filters.h"
#include "formats/codec/blosc_header.h"
#include "formats/codec/blosc_planes.h"
#include "formats/codec/blosc_streams.h"
#include "formats/codec/codec_context.h"
#include "formats/codec/size_error.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

// No compressor in blosc expands a byte more than zstd, whose run of 128 KiB
// takes 4 bytes (the block before the run is never empty).
constexpr uint64_t kDecodeFactorMax = 32768;

// Decodes the blocks of one container into `out`.
class BloscDecoder {
 public:
  BloscDecoder(const BloscHeader& header, std::string_view in,
               std::span<char> out, CodecContext& context)
      : header_(header), in_(in), out_(out), context_(context) {}

  // Decodes the blocks that hold any of the wanted bytes.
  Status Decode(DecodedRange wanted) {
    // An empty container has no blocks, whatever block size its header claims.
    if (header_.decoded_bytes == 0) return Status();
    if (header_.Has(kBloscStored)) return Copy(wanted);
    // All block offsets must be present before memory is allocated for a block.
    if (header_.block_count() >
        (in_.size() - kBloscHeaderBytes) / kBloscWordBytes) {
      return DoesNotDecode();
    }
    HF_RETURN_IF_ERROR(
        ReserveOrFail(2 * header_.block_bytes, context_.impl().filter));
    for (size_t block = wanted.first / header_.block_bytes;
         block * header_.block_bytes < wanted.last; ++block) {
      HF_RETURN_IF_ERROR(context_.impl().CheckCancel());
      HF_RETURN_IF_ERROR(DecodeBlock(block));
    }
    return Status();
  }

 private:
  Status DoesNotDecode() const {
    return BloscDamage(std::string(BloscFormatName(header_.compressor)) +
                       " data does not decode");
  }

  Status Copy(DecodedRange wanted) {
    if (in_.size() - kBloscHeaderBytes != out_.size()) return DoesNotDecode();
    std::memcpy(out_.data() + wanted.first,
                in_.data() + kBloscHeaderBytes + wanted.first,
                wanted.last - wanted.first);
    return Status();
  }

  Status DecodeBlock(size_t block) {
    const std::span<char> out =
        out_.subspan(block * header_.block_bytes, header_.BytesOfBlock(block));
    char* const scratch = context_.impl().filter.data();
    char* const other_scratch = scratch + header_.block_bytes;
    const bool bits =
        !header_.shuffles_bytes() && header_.ShufflesBits(out.size());
    const bool is_filtered = header_.shuffles_bytes() || bits;
    char* const target = is_filtered ? scratch : out.data();
    const size_t start =
        BloscWord(in_, kBloscHeaderBytes + block * kBloscWordBytes);
    if (DecodesAsPlanes(start, out)) return Status();
    HF_RETURN_IF_ERROR(DecodeStreams(start, {target, out.size()}));
    const std::string_view filtered(scratch, out.size());
    if (bits) {
      UnshuffleBits(header_.item_bytes, filtered, out.data(), other_scratch);
    } else if (is_filtered) {
      UnshuffleBytes(header_.item_bytes, filtered, out.data());
    }
    return Status();
  }

  // Decodes planes straight to items. Returns false if the block does not
  // consist of planes.
  bool DecodesAsPlanes(size_t at, std::span<char> out) {
    if (header_.compressor != BloscCompressor::kZstd ||
        !header_.shuffles_bytes() || header_.StreamCount(out.size()) != 1 ||
        at > in_.size() - kBloscWordBytes) {
      return false;
    }
    const size_t byte_count = BloscWord(in_, at);
    at += kBloscWordBytes;
    // A stream as large as its decoded size is not a frame.
    return byte_count <= in_.size() - at && byte_count != out.size() &&
           DecodeBloscPlanes(in_.substr(at, byte_count), header_.item_bytes,
                             out, context_);
  }

  Status DecodeStreams(size_t at, std::span<char> out) {
    const size_t count = header_.StreamCount(out.size());
    const size_t stream_bytes = out.size() / count;
    if (stream_bytes * count != out.size()) return DoesNotDecode();
    for (size_t i = 0; i < count; ++i) {
      if (at > in_.size() - kBloscWordBytes) return DoesNotDecode();
      const size_t byte_count = BloscWord(in_, at);
      at += kBloscWordBytes;
      if (byte_count > in_.size() - at) return DoesNotDecode();
      HF_RETURN_IF_ERROR(
          DecodeStream(in_.substr(at, byte_count),
                       out.subspan(i * stream_bytes, stream_bytes)));
      at += byte_count;
    }
    return Status();
  }

  Status DecodeStream(std::string_view stream, std::span<char> out) {
    // c-blosc stores a stream that would not shrink; only the stream's size
    // shows this.
    if (stream.size() == out.size()) {
      std::memcpy(out.data(), stream.data(), out.size());
      return Status();
    }
    HF_ASSIGN_OR_RETURN(
        const bool is_whole,
        DecompressBloscStream(header_.compressor, stream, out, context_));
    return is_whole ? Status() : DoesNotDecode();
  }

  const BloscHeader& header_;
  const std::string_view in_;
  const std::span<char> out_;
  CodecContext& context_;
};

// The next four functions make the same choices as c-blosc, so that the bytes
// are equal.

bool IsForHighRatio(BloscCompressor compressor) {
  return compressor == BloscCompressor::kLz4hc ||
         compressor == BloscCompressor::kZlib ||
         compressor == BloscCompressor::kZstd;
}

bool IsSplit(BloscCompressor compressor, size_t item_bytes,
             size_t block_bytes) {
  return compressor != BloscCompressor::kZstd &&
         item_bytes <= kBloscStreamCountMax &&
         block_bytes / item_bytes >= kBloscCompressedBytesMin;
}

size_t BlockBytesOfLevel(BloscCompressor compressor, int level) {
  constexpr size_t kKib = 1024;
  static constexpr size_t kOfLevel[] = {8,   16,  32,  64,  128,
                                        128, 256, 256, 256, 256};
  size_t block_bytes = kOfLevel[level] * kKib;
  if (!IsForHighRatio(compressor)) return block_bytes;
  return block_bytes * (level == 9 ? 4 : 2);
}

size_t ChooseBlockBytes(const BloscParams& params, BloscCompressor compressor,
                        size_t byte_count) {
  constexpr size_t kBlocksFrom = 32 << 10;
  const size_t item_bytes = params.typesize;
  if (byte_count < item_bytes) return 1;
  size_t block_bytes = byte_count;
  if (params.blocksize != 0) {
    block_bytes = std::clamp(params.blocksize, kBloscCompressedBytesMin,
                             kBloscBlockBytesMax);
  } else if (byte_count >= kBlocksFrom) {
    block_bytes = BlockBytesOfLevel(compressor, params.clevel);
  }
  if (params.clevel > 0 && IsSplit(compressor, item_bytes, block_bytes)) {
    block_bytes = std::min(block_bytes, size_t{1} << 18) * item_bytes;
    block_bytes = std::clamp(block_bytes, size_t{1} << 16, size_t{1} << 20);
  }
  block_bytes = std::min(block_bytes, byte_count);
  if (block_bytes > item_bytes) block_bytes -= block_bytes % item_bytes;
  return block_bytes;
}

// Encodes one container into `out`.
class BloscEncoder {
 public:
  BloscEncoder(const BloscHeader& header, int level, std::string_view in,
               std::span<char> out, CodecContext& context)
      : header_(header), level_(level), in_(in), out_(out), context_(context) {}

  // Returns the number of bytes written.
  Result<size_t> Encode() {
    if (level_ > 0 && in_.size() >= kBloscCompressedBytesMin) {
      HF_RETURN_IF_ERROR(
          ReserveOrFail(2 * header_.block_bytes, context_.impl().filter));
      HF_ASSIGN_OR_RETURN(const bool fits, EncodeBlocks());
      if (fits) return Finish(0);
    }
    if (!in_.empty()) {
      std::memcpy(out_.data() + kBloscHeaderBytes, in_.data(), in_.size());
    }
    at_ = kBloscHeaderBytes + in_.size();
    return Finish(kBloscStored);
  }

 private:
  size_t Finish(uint8_t more_flags) {
    BloscHeader header = header_;
    header.flags |= more_flags;
    WriteBloscHeader(header, at_, out_.data());
    return at_;
  }

  // Returns false when the encoding would not be smaller than the elements.
  Result<bool> EncodeBlocks() {
    at_ = kBloscHeaderBytes + header_.block_count() * kBloscWordBytes;
    for (size_t block = 0; block < header_.block_count(); ++block) {
      HF_RETURN_IF_ERROR(context_.impl().CheckCancel());
      const size_t word_at = kBloscHeaderBytes + block * kBloscWordBytes;
      // Abandons an encoding that has reached the size of the stored form.
      if (at_ >= out_.size()) return false;
      StoreBloscWord(at_, out_.data() + word_at);
      HF_ASSIGN_OR_RETURN(const bool fits, EncodeBlock(block));
      if (!fits) return false;
    }
    return true;
  }

  Result<bool> EncodeBlock(size_t block) {
    const size_t byte_count = header_.BytesOfBlock(block);
    const std::string_view in =
        in_.substr(block * header_.block_bytes, byte_count);
    const std::string_view filtered = Filtered(in);
    // c-blosc never splits the last block when it is shorter than the others.
    const bool is_last_part = byte_count < header_.block_bytes;
    const bool is_split = !header_.Has(kBloscOneStream) && !is_last_part;
    const size_t count = is_split ? header_.item_bytes : 1;
    const size_t stream_bytes = byte_count / count;
    for (size_t i = 0; i < count; ++i) {
      HF_ASSIGN_OR_RETURN(
          const bool fits,
          EncodeStream(filtered.substr(i * stream_bytes, stream_bytes)));
      if (!fits) return false;
    }
    return true;
  }

  std::string_view Filtered(std::string_view in) {
    char* const scratch = context_.impl().filter.data();
    if (header_.shuffles_bytes()) {
      ShuffleBytes(header_.item_bytes, in, scratch);
    } else if (header_.ShufflesBits(in.size())) {
      ShuffleBits(header_.item_bytes, in, scratch,
                  scratch + header_.block_bytes);
    } else {
      return in;
    }
    return {scratch, in.size()};
  }

  Result<bool> EncodeStream(std::string_view in) {
    const size_t size_at = at_;
    if (out_.size() - at_ <= kBloscWordBytes) return false;
    at_ += kBloscWordBytes;
    size_t room = in.size();
    // Snappy refuses a target smaller than its worst case, even if it needs
    // less.
    if (header_.compressor == BloscCompressor::kSnappy) {
      room = SnappyBytesMax(in.size());
    }
    room = std::min(room, out_.size() - at_);
    HF_ASSIGN_OR_RETURN(size_t byte_count,
                        CompressBloscStream(header_.compressor, level_, in,
                                            out_.subspan(at_, room), context_));
    // A stream as large as its decoded size would be read as stored bytes.
    if (byte_count == 0 || byte_count == in.size()) {
      if (out_.size() - at_ < in.size()) return false;
      std::memcpy(out_.data() + at_, in.data(), in.size());
      byte_count = in.size();
    }
    StoreBloscWord(byte_count, out_.data() + size_at);
    at_ += byte_count;
    return true;
  }

  const BloscHeader& header_;
  const int level_;
  const std::string_view in_;
  const std::span<char> out_;
  CodecContext& context_;
  size_t at_ = 0;  // the number of bytes written
};

}  // namespace

bool IsBloscCompressorName(std::string_view cname) {
  return BloscCompressorNamed(cname).has_value();
}

BloscCodec::BloscCodec(const BloscParams& params, size_t item_bytes)
    : params_(params) {
  if (params_.typesize == 0) params_.typesize = item_bytes;
  if (params_.shuffle == -1) params_.shuffle = params_.typesize == 1 ? 2 : 1;
}

size_t BloscCodec::EncodedBytesMax(size_t decoded_bytes) const {
  if (params_.planes) {
    return BloscPlanesBytesMax(decoded_bytes, params_.typesize);
  }
  return decoded_bytes + kBloscHeaderBytes;
}

uint64_t BloscCodec::DecodedBytesMax(std::string_view in) const {
  return in.size() * kDecodeFactorMax;
}

Result<size_t> BloscCodec::Encode(std::string_view in, std::span<char> out,
                                  CodecContext& context) const {
  assert(out.size() >= EncodedBytesMax(in.size()));
  if (in.size() > kBloscDecodedBytesMax) {
    return InvalidArgumentError(
        "blosc: chunk too large (got " + std::to_string(in.size()) +
        " bytes, want at most " + std::to_string(kBloscDecodedBytesMax) + ")");
  }
  if (params_.planes) {
    return EncodeBloscPlanes(in, params_.typesize, params_.clevel, out,
                             context);
  }
  BloscHeader header;
  header.compressor = *BloscCompressorNamed(params_.cname);
  header.item_bytes = params_.typesize;
  header.decoded_bytes = in.size();
  header.block_bytes = ChooseBlockBytes(params_, header.compressor, in.size());
  if (params_.shuffle == 1) header.flags |= kBloscByteShuffle;
  if (params_.shuffle == 2) header.flags |= kBloscBitShuffle;
  if (!IsSplit(header.compressor, header.item_bytes, header.block_bytes)) {
    header.flags |= kBloscOneStream;
  }
  return BloscEncoder(header, params_.clevel, in,
                      out.first(EncodedBytesMax(in.size())), context)
      .Encode();
}

Status BloscCodec::Decode(std::string_view in, std::span<char> out,
                          CodecContext& context) const {
  return DecodeRange(in, out, {0, out.size()}, context);
}

Status BloscCodec::DecodeRange(std::string_view in, std::span<char> out,
                               DecodedRange wanted,
                               CodecContext& context) const {
  HF_ASSIGN_OR_RETURN(const size_t decoded_bytes, ReadBloscDecodedBytes(in));
  if (decoded_bytes != out.size()) {
    return DecodedSizeError("blosc container", out.size(), decoded_bytes);
  }
  HF_ASSIGN_OR_RETURN(const BloscHeader header, ReadBloscHeader(in));
  return BloscDecoder(header, in, out, context).Decode(wanted);
}

Result<Bytes> BloscCodec::DecodeBounded(std::string_view in,
                                        size_t decoded_bytes_max,
                                        CodecContext& context) const {
  HF_ASSIGN_OR_RETURN(const size_t decoded_bytes, ReadBloscDecodedBytes(in));
  if (decoded_bytes > decoded_bytes_max) {
    return DecodedSizeError("blosc container", decoded_bytes_max,
                            decoded_bytes);
  }
  // The size in the header justifies no memory: a header of 16 bytes may claim
  // 2 GiB.
  if (decoded_bytes > DecodedBytesMax(in)) {
    return DecodedSizeError("blosc container", decoded_bytes,
                            DecodedBytesMax(in));
  }
  Buffer buffer;
  HF_RETURN_IF_ERROR(ReserveOrFail(decoded_bytes, buffer));
  HF_RETURN_IF_ERROR(Decode(in, {buffer.data(), decoded_bytes}, context));
  return Bytes(std::move(buffer), decoded_bytes);
}

}  // namespace holdfast
