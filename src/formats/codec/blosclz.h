// BloscLZ: the compressor that comes with blosc, a variant of FastLZ.
//
// A stream is a sequence of tokens: up to 32 literal bytes, or a match of at
// least 3 bytes, at most 73,726 bytes back. It begins and ends with literals.
// Thread-safety: pure. Ownership: arguments are borrowed. Units: bytes.
// Errors: false for a damaged stream; nothing is read or written out of bounds.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace holdfast {

// Returns the number of bytes written, or 0 if they would not fit into `out`.
size_t CompressBlosclz(std::string_view in, std::span<char> out);

// Returns whether `in` decodes to exactly out.size() bytes.
bool DecompressBlosclz(std::string_view in, std::span<char> out);

}  // namespace holdfast
