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

// Returns "512 B", "1.5 KiB", "12.0 GiB": powers of 1024, one decimal.
std::string HumanBytes(uint64_t bytes);
// Returns "0.42 s", "12 s", "3 min 5 s", "2 h 10 min".
std::string HumanSeconds(double seconds);
// Returns a time with milliseconds as in RFC 3339: "2026-01-31T12:00:00.123Z".
std::string IsoTime(int64_t ns);
// Returns "1 leaf", "2 leaves". `plural` is the complete word.
std::string Counted(uint64_t count, std::string_view singular,
                    std::string_view plural);

// Parses "512M", "2GiB", "1000000", "64KB". K and KiB are 1024, KB is 1000, as
// in coreutils. Returns InvalidArgument for anything else, for zero and on
// overflow.
Result<uint64_t> ParseBytes(std::string_view text);
// Parses "90s", "45m", "12h", "7d", "2w" and "90" (seconds). The time must be
// more than 0.
std::optional<double> ParseSeconds(std::string_view text);
// Parses a decimal integer in [low, high] without other text.
std::optional<int64_t> ParseInt(std::string_view text, int64_t low,
                                int64_t high);

// Parses a finite decimal number without other text.
std::optional<double> ParseNumber(std::string_view text);

// Returns the parts between separators, or one empty part for empty text.
std::vector<std::string_view> Split(std::string_view text, char separator);
// Returns "'text'".
std::string Quoted(std::string_view text);

// Returns "[2,3]", or "[]" for rank 0.
std::string ShapeText(const Shape& shape);

// Returns `text` with control characters and invalid UTF-8 escaped, as in "\n"
// and "\x1b". Names come from files, and a terminal must not interpret them.
std::string PrintableText(std::string_view text);
// Returns `text` cut to at most `columns` code points: its beginning, "…" or
// "...", and its end.
std::string ShortenedText(const std::string& text, size_t columns, bool utf8);
// Returns a leaf's name in at most `columns` code points. Keys are shortened to
// their first letters, starting at the left: "p.t.layer_11.a.query.kernel". The
// last two keys stay, and keys with digits, which distinguish layers. If the
// name is still too long, it is cut as in ShortenedText.
std::string ShortenedName(const std::string& name, size_t columns, bool utf8);
// Returns "9999", "12.3K", "124.4M", "7.2B": powers of 1000, as in the names of
// models.
std::string HumanCount(uint64_t count);
// Returns the number of code points, which is the width of most text in a
// terminal.
size_t TextWidth(std::string_view text);
// Returns the length of the UTF-8 sequence that `text` starts with, or 0 if it
// is malformed. REQUIRES: text is not empty.
size_t Utf8SequenceBytes(std::string_view text);

}  // namespace holdfast::cli
