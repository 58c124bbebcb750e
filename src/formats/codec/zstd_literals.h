// Blocks of zstd frames that hold only literals: raw, one repeated byte, or
// Huffman-coded (RFC 8878, 3.1.1.2 and 3.1.1.3.1). Any compressor turns tensors
// of noise into such blocks, because no string repeats in such tensors.
//
// Such blocks share only their trees with each other, so they can be written
// and read one by one, in place.
// Thread-safety: one thread per object. Ownership: inputs are borrowed; blocks
// that are read point into the frame. Units: bytes.
// Errors: readers return false for damaged frames and for frames with anything
// else in them; the caller then asks libzstd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "formats/codec/huffman.h"
#include "formats/codec/zstd_frame.h"

namespace holdfast {

// Coding that saves less than this fraction of a block costs more than it is
// worth: a raw block is copied ten times as fast as a coded block is decoded.
inline constexpr double kBlockSavingMin = 0.03;

// Writes blocks of one kind of bytes, such as a plane of a tensor. Keeps the
// tree of the last block for as long as it is nearly as good as a new tree,
// which also lets readers keep their tables.
class LiteralsWriter {
 public:
  // Returns the most bytes that Write writes: the raw block with its header.
  static constexpr size_t BytesMax(size_t block_bytes) {
    return block_bytes + kZstdBlockHeaderBytes;
  }

  // Makes the next coded block write its tree again, because it belongs to
  // another frame or follows blocks of another writer.
  void ForgetFrame() { frame_has_tree_ = false; }

  // Writes one block and returns its size.
  // REQUIRES: 0 < in.size() <= kZstdBlockBytesMax; `out` has BytesMax bytes.
  size_t Write(std::string_view in, bool is_last, char* out);

 private:
  bool ChooseCode(std::string_view in);
  size_t WriteCoded(std::string_view in, bool is_last, char* out) const;

  std::optional<HuffmanCode> code_;
  double excess_ = 1;  // bits of the code over the entropy when it was made
  bool frame_has_tree_ = false;  // the tree of code_, for later blocks
  uint64_t bit_count_ = 0;       // of the current block
};

struct LiteralBlock {
  enum class Kind : uint8_t { kRaw, kRun, kCoded };
  Kind kind = Kind::kRaw;
  bool is_last = false;
  bool repeats_tree = false;
  bool has_four_streams = false;
  size_t decoded_bytes = 0;
  std::string_view data;  // kRun: one byte; kCoded: the tree and the streams
};

// Reads the blocks of one frame, in order.
class LiteralsReader {
 public:
  // `blocks` is the frame without its header.
  explicit LiteralsReader(std::string_view blocks) : rest_(blocks) {}

  bool Next(LiteralBlock& block);
  // Returns the bytes after the blocks that were read.
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// Decodes the blocks of one frame, in order.
class LiteralsDecoder {
 public:
  explicit LiteralsDecoder(HuffmanTables& tables) : tables_(tables) {}

  // REQUIRES: out.size() == block.decoded_bytes.
  bool Decode(const LiteralBlock& block, std::span<char> out);

 private:
  HuffmanTables& tables_;
  const HuffmanTable* table_ = nullptr;  // of the last coded block
};

// Writes `in` as a frame of literal blocks and returns its size.
// REQUIRES: `out` has StoredZstdFrameBytes() bytes.
size_t WriteLiteralFrame(std::string_view in, bool checksum, char* out);

// Decodes a complete frame to exactly out.size() bytes and checks its checksum.
bool DecodeLiteralFrame(std::string_view frame, const ZstdFrameInfo& info,
                        std::span<char> out, HuffmanTables& tables);

}  // namespace holdfast
