// blosc's two filters, which move similar bytes of a block next to each other
// before it is compressed: byte shuffle (byte 0 of all items, then byte 1, ...)
// and bit shuffle (bit 0 of all items, then bit 1, ...; c-blosc's bitshuffle).
//
// Bytes after the last complete item stay where they are. Bit shuffle moves
// nothing when the item count is not a multiple of 8.
// Thread-safety: pure. Ownership: `out` and `scratch` have room for in.size()
// bytes; `in`, `out` and `scratch` do not overlap. Units: bytes. Errors: none.
#pragma once

#include <cstddef>
#include <string_view>

namespace holdfast {

inline constexpr size_t kBloscItemBytesMax = 255;

void ShuffleBytes(size_t item_bytes, std::string_view in, char* out);
void UnshuffleBytes(size_t item_bytes, std::string_view in, char* out);
// Like UnshuffleBytes, but for planes that are stored anywhere: byte k of item
// i is planes[k][i].
void JoinPlanes(size_t item_bytes, size_t item_count, const char* const* planes,
                char* out);

void ShuffleBits(size_t item_bytes, std::string_view in, char* out,
                 char* scratch);
void UnshuffleBits(size_t item_bytes, std::string_view in, char* out,
                   char* scratch);

}  // namespace holdfast
