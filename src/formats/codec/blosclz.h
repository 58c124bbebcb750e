// BloscLZ: the compressor that blosc brings along, a FastLZ of its own.
//
// A stream is tokens: up to 32 literal bytes, or a match of 3 bytes and more at
// most 73,726 bytes back. It begins and ends with literals.
// Thread-safety: pure. Ownership: arguments are borrowed. Units: bytes.
// Errors: false for what is damaged; neither reads nor writes out of bounds.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace holdfast {

// The bytes written; 0 when they would not fit into `out`.
size_t CompressBlosclz(std::string_view in, std::span<char> out);

// Whether `in` decodes to exactly out.size() bytes.
bool DecompressBlosclz(std::string_view in, std::span<char> out);

}  // namespace holdfast
