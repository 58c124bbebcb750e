// A quick look at a chunk before it is compressed: is it worth the time?
//
// Weights and optimizer moments hold no repeated strings; all that can be
// saved is the entropy of their sign and exponent bytes, at about 1 GB/s a
// thread. Where little would be saved it is better not to try.
//
// The looks go to 4 KiB windows spread evenly over the chunk: 8 of them up to
// 1 MiB, 32 from 4 MiB on, fewer below 128 KiB. A region of other data escapes
// them only if it is smaller than the gap between two windows.
//
// Thread-safety: pure but for the context. Units: savings are fractions of the
// input (0.22 means the result is 22 % smaller).
#pragma once

#include <string_view>

#include "formats/codec/codec.h"

namespace holdfast {

// The part that entropy coding of single bytes would save, each window on its
// own, less the room that the code table takes.
double EstimateLiteralSaving(std::string_view in);

// The part that repeated strings would save, within and among the windows. 0
// when there is no memory to try. A negative `level` is how coarsely zstd
// looks; strings of less than `match_bytes_min` (0: as the level has it) do not
// count.
double EstimateMatchSaving(std::string_view in, CodecContext& context,
                           int level = -1, int match_bytes_min = 0);

// True when 8 bytes from inside the input (two places are tried) come again
// within the next 64 KiB, a multiple of 8 bytes away: repeats with a period
// above the window size, such as equal rows, which no window shows.
bool HasDistantRepeat(std::string_view in);

}  // namespace holdfast
