// Formats and parses sizes, times and names for users.
//
// Thread-safety: pure functions.
// Units: bytes; seconds; nanoseconds since 1970-01-01 UTC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"
#include "holdfast/tensor.h"

namespace holdfast::cli {

// "512 B", "1.5 KiB", "12.0 GiB": powers of 1024, one decimal.
std::string HumanBytes(uint64_t bytes);
// "0.42 s", "12 s", "3 min 5 s", "2 h 10 min".
std::string HumanSeconds(double seconds);
// "2026-01-31T12:00:00.123Z" (milliseconds, as RFC 3339).
std::string IsoTime(int64_t ns);
// "1 leaf", "2 leaves": `plural` is the complete word.
std::string Counted(uint64_t count, std::string_view singular,
                    std::string_view plural);

// "512M", "2GiB", "1000000", "64KB": K and KiB are 1024, KB is 1000, as in
// coreutils. InvalidArgument on anything else, zero and overflow.
Result<uint64_t> ParseBytes(std::string_view text);
// "90s", "45m", "12h", "7d", "2w" and "90" (seconds); more than 0.
std::optional<double> ParseSeconds(std::string_view text);
// Parses a decimal integer in [low, high] without other text.
std::optional<int64_t> ParseInt(std::string_view text, int64_t low,
                                int64_t high);

// Parses a finite decimal number without other text.
std::optional<double> ParseNumber(std::string_view text);

// The parts between separators; one empty part for empty text.
std::vector<std::string_view> Split(std::string_view text, char separator);
// "'text'".
std::string Quoted(std::string_view text);

// "[2,3]", "[]".
std::string ShapeText(const Shape& shape);

// `text` with control characters and invalid UTF-8 escaped as \n, \x1b, ...
// Names come from files, and a terminal must not interpret them.
std::string PrintableText(std::string_view text);
// `text` cut to at most `columns` code points: its beginning, "…" or "...", its
// end.
std::string ShortenedText(const std::string& text, size_t columns, bool utf8);
// A leaf's name in at most `columns` code points. Keys are shortened to their
// first letters, from the left, except the last two and those with digits,
// which distinguish layers: "p.t.layer_11.a.query.kernel". If that does not
// suffice, the name is cut as by ShortenedText.
std::string ShortenedName(const std::string& name, size_t columns, bool utf8);
// "9999", "12.3K", "124.4M", "7.2B": powers of 1000, as models are named.
std::string HumanCount(uint64_t count);
// The number of code points: the width of most text in a terminal.
size_t TextWidth(std::string_view text);
// The length of the UTF-8 sequence that `text` starts with; 0 if malformed.
// REQUIRES: text is not empty.
size_t Utf8SequenceBytes(std::string_view text);

}  // namespace holdfast::cli
