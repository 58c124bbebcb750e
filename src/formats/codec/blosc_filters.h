// Blosc's two filters, which put what is alike in a block side by side before
// it is compressed: byte shuffle (byte 0 of all items, then byte 1, ...) and
// bit shuffle (bit 0 of all items, then bit 1, ...; c-blosc's bitshuffle).
//
// Bytes behind the last whole item stay where they are; and all of them do when
// the bits of a number of items that is not a multiple of 8 are to be shuffled.
// Thread-safety: pure. Ownership: `out` and `scratch` have room for in.size()
// bytes; none of the three overlap. Units: bytes. Errors: none.
#pragma once

#include <cstddef>
#include <string_view>

namespace holdfast {

inline constexpr size_t kBloscItemBytesMax = 255;

void ShuffleBytes(size_t item_bytes, std::string_view in, char* out);
void UnshuffleBytes(size_t item_bytes, std::string_view in, char* out);
// UnshuffleBytes of planes that lie anywhere: byte k of item i is planes[k][i].
void JoinPlanes(size_t item_bytes, size_t item_count, const char* const* planes,
                char* out);

void ShuffleBits(size_t item_bytes, std::string_view in, char* out,
                 char* scratch);
void UnshuffleBits(size_t item_bytes, std::string_view in, char* out,
                   char* scratch);

}  // namespace holdfast
