// Estimates whether compressing a chunk is worth the time.
//
// Weights and optimizer moments have no repeated strings. Only the entropy of
// their sign and exponent bytes can be saved, at about 1 GB/s per thread. If
// little can be saved, it is better not to try.
//
// The samples are 4 KiB windows spread evenly over the chunk: 8 of them up to 1
// MiB, 32 from 4 MiB on, fewer below 128 KiB. They miss a region of other data
// only if it is smaller than the gap between two windows.
//
// Thread-safety: pure, except for the context. Units: savings are fractions of
// the input (0.22 means the result is 22 % smaller).
#pragma once

#include <string_view>

#include "formats/codec/codec.h"

namespace holdfast {

// Returns the fraction that entropy coding of single bytes would save in each
// window, minus the size of the code table.
double EstimateLiteralSaving(std::string_view in);

// Returns the fraction that repeated strings would save, within and among the
// windows, or 0 if there is not enough memory to try. A negative `level` sets
// how coarsely zstd searches. Strings shorter than `match_bytes_min` do not
// count (0: the minimum of the level).
double EstimateMatchSaving(std::string_view in, CodecContext& context,
                           int level = -1, int match_bytes_min = 0);

// Returns true if 8 bytes of the input, at one of two places, occur again
// within the next 64 KiB, a multiple of 8 bytes away. This finds repeats with a
// period above the window size, such as equal rows, which no window shows.
bool HasDistantRepeat(std::string_view in);

}  // namespace holdfast
