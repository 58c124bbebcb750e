// Huffman coding of bytes as in zstd's literals: codes of at most 11 bits, a
// description of the tree, and four streams that are read from their ends.
// Source: RFC 8878, sections 4.1 (FSE) and 4.2 (Huffman).
//
// Weights of neural networks are noise except for their sign-and-exponent
// bytes. A search for repeats does not make these smaller, so only Huffman
// coding helps. bench/results/codecs.md gives its speed on one core (Xeon, 128
// KiB of a bf16 normal's upper bytes, 2.8 bits each).
//
// Thread-safety: a code is immutable; a decoder belongs to one thread.
// Ownership: inputs are borrowed for the call. Units: bytes, unless a name says
// bits. Errors: a decoder returns false for whatever it does not accept. The
// caller then asks libzstd, which decides what is damaged.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "formats/codec/huffman_weights.h"

namespace holdfast {

inline constexpr int kHuffmanBitsMax = 11;
inline constexpr size_t kHuffmanStreamCount = 4;
// Spare bytes for four streams: the jump table, the rest of a byte at the end
// of each stream, and what is written beyond the last stream.
inline constexpr size_t kHuffmanSpareBytes = 6 + kHuffmanStreamCount + 8;

using ByteCounts = std::array<uint32_t, 256>;
ByteCounts CountBytes(std::string_view in);
// Returns the minimum number of bits for bytes of these frequencies if each
// byte is coded by itself.
double EntropyBits(const ByteCounts& counts);

// The encoder's tables: the code of each byte, and the description for
// decoders.
class HuffmanCode {
 public:
  // Returns nullopt if fewer than two bytes are counted, or if the tree cannot
  // be described (for example, for 256 equally frequent bytes).
  static std::optional<HuffmanCode> Of(const ByteCounts& counts);

  // Returns the number of bits that Encode uses for bytes of these counts,
  // without the streams' ends. Returns nullopt if one of the bytes has no code.
  std::optional<uint64_t> BitsOf(const ByteCounts& counts) const;

  // Returns the Huffman_Tree_Description.
  std::string_view description() const { return description_; }

  // Writes the jump table and four streams; returns their size.
  // REQUIRES: all bytes of `in` have codes; in.size() <= 128 KiB; `out` has
  // room for BitsOf() / 8 + kHuffmanSpareBytes.
  size_t Encode(std::string_view in, char* out) const;

 private:
  // The length of the code in the lower 8 bits, and the code above; 0 for no
  // code.
  std::array<uint32_t, 256> codes_{};
  std::string description_;
};

// A tree prepared for decoding. 11 bits of a stream select an entry. The entry
// holds all bytes, at most six, whose codes these 11 bits contain completely.
class HuffmanTable {
 public:
  // Builds the table of a description, which must fill `description` exactly.
  // Returns immediately when the table already has this description.
  bool Read(std::string_view description);

  // Decodes four streams with their jump table, or one stream, to exactly
  // out.size() bytes. REQUIRES: Read has returned true.
  bool Decode(std::string_view streams, bool has_four_streams,
              std::span<char> out) const;
  std::string_view description() const { return description_; }

 private:
  struct Reader;
  struct LookForMany;
  struct LookForOne;

  void Order(const HuffmanWeights& weights);
  void FillSingle();
  void Fill(size_t base, int bits_left, uint64_t entry);
  bool DecodeRest(Reader& reader) const;
  template <typename Look>
  void DecodeRounds(std::span<Reader, kHuffmanStreamCount> readers) const;
  void DecodeFourPlain(std::span<Reader, kHuffmanStreamCount> readers) const;
  void DecodeFourBmi2(std::span<Reader, kHuffmanStreamCount> readers) const;

  std::string description_;
  // Byte 0: the number of bits used; 1 to 6: decoded bytes; 7: their count.
  std::array<uint64_t, size_t{1} << kHuffmanBitsMax> entries_;
  // Byte 0: the bits of the first code; 1: its byte.
  std::array<uint16_t, size_t{1} << kHuffmanBitsMax> single_entries_;
  bool has_long_codes_ = false;
  std::array<uint8_t, 256> bit_counts_{};
  // Used by Fill: bytes in the order of their codes; for each bit count, the
  // first code that fits, and the number of values that begin a longer code.
  std::array<uint8_t, 256> ordered_{};
  size_t ordered_count_ = 0;
  std::array<uint16_t, kHuffmanBitsMax + 1> first_fitting_{};
  std::array<uint16_t, kHuffmanBitsMax + 1> longer_count_{};
};

// Tables of the last few trees. Neighboring chunks often have equal trees.
class HuffmanTables {
 public:
  // Returns null if the description is not valid.
  const HuffmanTable* Find(std::string_view description);

 private:
  static constexpr size_t kTableCount = 4;

  std::array<std::unique_ptr<HuffmanTable>, kTableCount> tables_;
  size_t next_ = 0;  // the table to replace next
};

}  // namespace holdfast
