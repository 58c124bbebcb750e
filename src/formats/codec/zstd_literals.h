// Blocks of zstd frames that hold literals and nothing else: raw, one byte
// repeated, or Huffman-coded (RFC 8878, 3.1.1.2 and 3.1.1.3.1). Tensors of
// noise become such blocks, whoever compresses them, since no string in them
// repeats.
//
// Such blocks do not refer to each other but for trees, so they can be written
// and read one by one, where they belong.
// Thread-safety: one thread an object. Ownership: inputs are borrowed; blocks
// that are read point into the frame. Units: bytes.
// Errors: readers return false for frames with anything else in them and for
// damaged ones; libzstd is to be asked then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "formats/codec/huffman.h"
#include "formats/codec/zstd_frame.h"

namespace holdfast {

// Coding that saves less than this part of a block costs more than it is worth:
// a raw block is copied at ten times the speed at which a coded one is decoded.
inline constexpr double kBlockSavingMin = 0.03;

// Writes the blocks of one kind of bytes, such as a plane of a tensor's. Keeps
// the tree of the last block for as long as it is nearly as good as a new one,
// which also lets readers keep their tables.
class LiteralsWriter {
 public:
  // The most that Write writes: the block as it is, or fewer bytes.
  static constexpr size_t BytesMax(size_t block_bytes) {
    return block_bytes + kZstdBlockHeaderBytes;
  }

  // From here on the tree must come again: what is written next belongs to
  // another frame, or follows blocks of another writer.
  void ForgetFrame() { frame_has_tree_ = false; }

  // Writes one block; returns its size.
  // REQUIRES: 0 < in.size() <= kZstdBlockBytesMax; `out` has BytesMax bytes.
  size_t Write(std::string_view in, bool is_last, char* out);

 private:
  bool ChooseCode(std::string_view in);
  size_t WriteCoded(std::string_view in, bool is_last, char* out) const;

  std::optional<HuffmanCode> code_;
  double excess_ = 1;  // bits of the code over the entropy when it was made
  bool frame_has_tree_ = false;  // that of the code, for blocks to come
  uint64_t bit_count_ = 0;       // of the block in hand
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

// Reads the blocks of one frame, one after the other.
class LiteralsReader {
 public:
  // `blocks`: the frame behind its header.
  explicit LiteralsReader(std::string_view blocks) : rest_(blocks) {}

  bool Next(LiteralBlock& block);
  // The bytes after the blocks that were read.
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// Decodes blocks of one frame, in their order.
class LiteralsDecoder {
 public:
  explicit LiteralsDecoder(HuffmanTables& tables) : tables_(tables) {}

  // REQUIRES: out.size() == block.decoded_bytes.
  bool Decode(const LiteralBlock& block, std::span<char> out);

 private:
  HuffmanTables& tables_;
  const HuffmanTable* table_ = nullptr;  // of the last coded block
};

// Writes the frame of `in`, of blocks of literals; returns its size.
// REQUIRES: `out` has StoredZstdFrameBytes() bytes.
size_t WriteLiteralFrame(std::string_view in, bool checksum, char* out);

// Decodes a whole frame to exactly out.size() bytes, and compares its checksum.
bool DecodeLiteralFrame(std::string_view frame, const ZstdFrameInfo& info,
                        std::span<char> out, HuffmanTables& tables);

}  // namespace holdfast
