// The head of a blosc 1 container, shared by its reader and writers.
//
// A container is a header, followed by the unchanged elements, or by the offset
// of each block and then the blocks. Each block is filtered separately, and
// consists of one stream, or of one stream for each byte of an item. A stream
// is its size and then its bytes, which are compressed unless the size equals
// the decoded size.
// Thread-safety: plain data and pure functions. Units: bytes.
// Errors: DataLoss for a header that is damaged.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "formats/codec/blosc_streams.h"
#include "ground/base/coding.h"
#include "holdfast/status.h"

namespace holdfast {

inline constexpr size_t kBloscHeaderBytes = 16;
inline constexpr size_t kBloscWordBytes = 4;
inline constexpr char kBloscVersion = 2;
inline constexpr char kBloscStreamVersion = 1;

inline constexpr uint8_t kBloscByteShuffle = 1 << 0;
inline constexpr uint8_t kBloscStored = 1 << 1;
inline constexpr uint8_t kBloscBitShuffle = 1 << 2;
inline constexpr uint8_t kBloscUnknownFlag = 1 << 3;
inline constexpr uint8_t kBloscOneStream = 1 << 4;
inline constexpr int kBloscFormatShift = 5;

inline constexpr size_t kBloscDecodedBytesMax =
    std::numeric_limits<int32_t>::max() - kBloscHeaderBytes;

// The limits of c-blosc.
inline constexpr size_t kBloscBlockBytesMax =
    (std::numeric_limits<int32_t>::max() - 255 * 4) / 3;
inline constexpr size_t kBloscCompressedBytesMin = 128;
inline constexpr size_t kBloscStreamCountMax = 16;

struct BloscHeader {
  BloscCompressor compressor = BloscCompressor::kLz4;
  uint8_t flags = 0;
  size_t item_bytes = 1;
  size_t decoded_bytes = 0;
  size_t block_bytes = 1;

  bool Has(uint8_t flag) const { return (flags & flag) != 0; }
  size_t block_count() const {
    return (decoded_bytes + block_bytes - 1) / block_bytes;
  }
  size_t BytesOfBlock(size_t block) const {
    return std::min(block_bytes, decoded_bytes - block * block_bytes);
  }
  bool shuffles_bytes() const {
    return Has(kBloscByteShuffle) && item_bytes > 1;
  }
  // Returns whether the bits of a block of `byte_count` bytes are shuffled.
  // c-blosc does not shuffle the bits of a block that is smaller than one item.
  bool ShufflesBits(size_t byte_count) const {
    return Has(kBloscBitShuffle) && byte_count >= item_bytes;
  }
  // Returns the number of streams that a block of `byte_count` bytes has.
  size_t StreamCount(size_t byte_count) const {
    const bool is_split = !Has(kBloscOneStream) &&
                          item_bytes <= kBloscStreamCountMax &&
                          byte_count == block_bytes &&
                          byte_count / item_bytes >= kBloscCompressedBytesMin;
    return is_split ? item_bytes : 1;
  }
};

inline uint32_t BloscWord(std::string_view in, size_t offset) {
  return LoadLittle<uint32_t>(in.data() + offset);
}

inline void StoreBloscWord(size_t value, char* target) {
  StoreLittle(target, static_cast<uint32_t>(value));
}

Status BloscDamage(const std::string& what);

// Checks that the encoded size in the header equals the number of bytes, and
// returns the decoded size in the header.
Result<size_t> ReadBloscDecodedBytes(std::string_view in);

// REQUIRES: ReadBloscDecodedBytes has accepted `in`.
Result<BloscHeader> ReadBloscHeader(std::string_view in);

// Writes the first 16 bytes of a container that has `encoded_bytes` bytes in
// total.
inline void WriteBloscHeader(const BloscHeader& header, size_t encoded_bytes,
                             char* out) {
  out[0] = kBloscVersion;
  out[1] = kBloscStreamVersion;
  out[2] = static_cast<char>(header.flags | BloscFormatOf(header.compressor)
                                                << kBloscFormatShift);
  out[3] = static_cast<char>(header.item_bytes);
  StoreBloscWord(header.decoded_bytes, out + 4);
  StoreBloscWord(header.block_bytes, out + 8);
  StoreBloscWord(encoded_bytes, out + 12);
}

}  // namespace holdfast
