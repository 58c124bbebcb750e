// Huffman coding of bytes as zstd's literals have it: codes of at most 11 bits,
// a description of the tree, four streams that are read from their ends.
// Source: RFC 8878, sections 4.1 (FSE) and 4.2 (Huffman).
//
// Weights of neural networks are noise but for their sign-and-exponent bytes,
// which no search for repeats makes smaller, so this is all the coding there
// is. Measured on one core (Xeon, 128 KiB of a bf16 normal's upper bytes, 2.8
// bits each): see bench/results/codecs.md.
//
// Thread-safety: a code is immutable; a decoder belongs to one thread.
// Ownership: inputs are borrowed for the call. Units: bytes, but where a name
// says bits. Errors: a decoder returns false for whatever it does not take; the
// caller asks libzstd then, which has the word on what is damaged.
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
// Spare bytes of four streams: the jump table, the rest of a byte at the end of
// each, and what is written beyond the last.
inline constexpr size_t kHuffmanSpareBytes = 6 + kHuffmanStreamCount + 8;

using ByteCounts = std::array<uint32_t, 256>;
ByteCounts CountBytes(std::string_view in);
// The bits that bytes of these frequencies take at least, each for itself.
double EntropyBits(const ByteCounts& counts);

// The encoder's tables: the code of each byte, and how to tell a decoder.
class HuffmanCode {
 public:
  // Nullopt when fewer than two bytes are counted, and when the tree cannot be
  // described (as of 256 equally frequent bytes).
  static std::optional<HuffmanCode> Of(const ByteCounts& counts);

  // The bits that Encode takes for bytes of these counts, but for the ends of
  // the streams; nullopt when one of them has no code.
  std::optional<uint64_t> BitsOf(const ByteCounts& counts) const;

  // The Huffman_Tree_Description.
  std::string_view description() const { return description_; }

  // Writes the jump table and four streams; returns their size.
  // REQUIRES: all bytes of `in` have codes; in.size() <= 128 KiB; `out` has
  // room for BitsOf() / 8 + kHuffmanSpareBytes.
  size_t Encode(std::string_view in, char* out) const;

 private:
  // The length of the code in the lower 8 bits, the code above; 0: it has no
  // code.
  std::array<uint32_t, 256> codes_{};
  std::string description_;
};

// A tree made ready for decoding: each entry is found by 11 bits of a stream
// and holds all the bytes whose codes are whole in them, at most six.
class HuffmanTable {
 public:
  // Makes the table of a description, which is all of `description`; at once
  // when it is the one that the table has.
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
  // Byte 0: the bits that are taken; 1 to 6: decoded bytes; 7: how many.
  std::array<uint64_t, size_t{1} << kHuffmanBitsMax> entries_;
  // Byte 0: the bits of the first code; 1: its byte.
  std::array<uint16_t, size_t{1} << kHuffmanBitsMax> single_entries_;
  bool has_long_codes_ = false;
  std::array<uint8_t, 256> bit_counts_{};
  // For Fill: bytes in the order of their codes; from which on codes fit into
  // so many bits, and how many values of so many bits begin a longer one.
  std::array<uint8_t, 256> ordered_{};
  size_t ordered_count_ = 0;
  std::array<uint16_t, kHuffmanBitsMax + 1> first_fitting_{};
  std::array<uint16_t, kHuffmanBitsMax + 1> longer_count_{};
};

// Tables of the last few trees: neighbouring chunks often have equal ones.
class HuffmanTables {
 public:
  // Null when the description is not valid.
  const HuffmanTable* Find(std::string_view description);

 private:
  static constexpr size_t kTableCount = 4;

  std::array<std::unique_ptr<HuffmanTable>, kTableCount> tables_;
  size_t next_ = 0;  // the table to be given up
};

}  // namespace holdfast
