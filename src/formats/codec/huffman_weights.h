// Reads and writes a Huffman_Tree_Description: weights that are either stored
// with 4 bits each or coded by finite state entropy (RFC 8878, 4.2.1).
//
// A byte of weight w has a code of bit_count_max + 1 - w bits, or no code if w
// is 0. The last weight is not written, since the others determine it.
// Thread-safety: pure. Units: bytes. Errors: nullopt.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast {

struct HuffmanWeights {
  std::array<uint8_t, 256> of_byte{};
  int bit_count_max = 0;
};

// Returns the shorter of the two forms, or nullopt when neither can hold the
// weights. REQUIRES: the weights are complete: 2^(w - 1) over all w > 0 add up
// to 2^bit_count_max.
std::optional<std::string> DescribeHuffmanWeights(
    const HuffmanWeights& weights);

// Parses a description with nothing after it. Returns nullopt for what libzstd
// refuses.
std::optional<HuffmanWeights> ParseHuffmanWeights(std::string_view description);

// Returns the size of the description at the start of `in`, or nullopt if the
// description is cut short.
std::optional<size_t> HuffmanDescriptionBytes(std::string_view in);

}  // namespace holdfast
