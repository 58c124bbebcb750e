#include "cli/units.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <span>

namespace holdfast::cli {
namespace {

template <typename... T>
std::string Printf(const char* format, T... values) {
  char text[96];
  const int length = std::snprintf(text, sizeof(text), format, values...);
  return std::string(text, static_cast<size_t>(length));
}

// Returns `value` with one decimal, in the largest unit that fits. The units
// are successive powers of `base`.
std::string InUnits(double value, double base,
                    std::span<const char* const> units) {
  value /= base;
  size_t unit = 0;
  // A value less than 0.05 below the base would be printed as the base.
  while (value >= base - 0.05 && unit + 1 < units.size()) {
    value /= base;
    ++unit;
  }
  return Printf("%.1f%s", value, units[unit]);
}

std::optional<uint64_t> UnitBytes(std::string_view suffix) {
  if (suffix.empty() || suffix == "B") return 1;
  constexpr std::string_view kPrefixes = "KMGT";
  const char prefix =
      suffix[0] == 'k' ? 'K' : suffix[0];  // SI writes kilo in lower case
  const size_t power = kPrefixes.find(prefix);
  if (power == std::string_view::npos) return std::nullopt;
  suffix.remove_prefix(1);
  const bool binary = suffix.empty() || suffix == "iB" || suffix == "i";
  if (!binary && suffix != "B") return std::nullopt;
  uint64_t unit = 1;
  for (size_t i = 0; i <= power; ++i) unit *= binary ? 1024 : 1000;
  return unit;
}

bool IsControl(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return first < 0x20 || first == 0x7f;
  // U+0080..U+009F: C1 controls, which some terminals obey.
  return sequence.size() == 2 && first == 0xc2 &&
         static_cast<unsigned char>(sequence[1]) < 0xa0;
}

void AppendEscaped(std::string_view bytes, std::string* text) {
  for (const char c : bytes) {
    if (c == '\n') {
      *text += "\\n";
    } else if (c == '\t') {
      *text += "\\t";
    } else {
      *text += Printf("\\x%02x",
                      static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
  }
}

}  // namespace

std::string HumanBytes(uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  constexpr const char* kUnits[] = {" KiB", " MiB", " GiB",
                                    " TiB", " PiB", " EiB"};
  return InUnits(static_cast<double>(bytes), 1024, kUnits);
}

std::string HumanCount(uint64_t count) {
  if (count < 10'000) return std::to_string(count);
  constexpr const char* kUnits[] = {"K", "M", "B", "T", "Q"};
  return InUnits(static_cast<double>(count), 1000, kUnits);
}

std::string HumanSeconds(double seconds) {
  if (!(seconds > 0)) seconds = 0;
  if (seconds < 9.95) return Printf("%.2f s", seconds);
  if (seconds < 59.5) return Printf("%.0f s", seconds);
  const auto whole = static_cast<uint64_t>(std::min(seconds + 0.5, 1e15));
  const auto hours = static_cast<unsigned long long>(whole / 3600);
  const auto minutes = static_cast<unsigned>(whole / 60 % 60);
  if (hours > 0) return Printf("%llu h %u min", hours, minutes);
  return Printf("%u min %u s", minutes, static_cast<unsigned>(whole % 60));
}

std::string IsoTime(int64_t ns) {
  using std::chrono::floor;
  const std::chrono::sys_time<std::chrono::nanoseconds> time{
      std::chrono::nanoseconds(ns)};
  const auto day = floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(floor<std::chrono::milliseconds>(time) -
                                    day);
  return Printf(
      "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ", static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
      static_cast<int>(clock.hours().count()),
      static_cast<int>(clock.minutes().count()),
      static_cast<int>(clock.seconds().count()),
      static_cast<int>(clock.subseconds().count()));
}

std::string Counted(uint64_t count, std::string_view singular,
                    std::string_view plural) {
  return std::to_string(count) + " " +
         std::string(count == 1 ? singular : plural);
}

Result<uint64_t> ParseBytes(std::string_view text) {
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const Status bad = InvalidArgumentError(
      "'" + std::string(text) + "' is not a size (want e.g. 512M, 2GiB)");
  if (error != std::errc()) return bad;
  const auto unit = UnitBytes(std::string_view(rest, end - rest));
  if (!unit || number == 0) return bad;
  if (number > std::numeric_limits<uint64_t>::max() / *unit) return bad;
  return number * *unit;
}

std::optional<double> ParseSeconds(std::string_view text) {
  double unit = 1;
  constexpr std::string_view kUnits = "smhdw";
  constexpr double kUnitSeconds[] = {1, 60, 3600, 86'400, 604'800};
  const size_t index = text.empty() ? kUnits.npos : kUnits.find(text.back());
  if (index != kUnits.npos) {
    unit = kUnitSeconds[index];
    text.remove_suffix(1);
  }
  const auto count = ParseInt(text, 1, 1'000'000'000);
  if (!count) return std::nullopt;
  return static_cast<double>(*count) * unit;
}

std::optional<int64_t> ParseInt(std::string_view text, int64_t low,
                                int64_t high) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end) return std::nullopt;
  if (value < low || value > high) return std::nullopt;
  return value;
}

std::optional<double> ParseNumber(std::string_view text) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole =
      error == std::errc() && end == text.data() + text.size();
  if (!is_whole || !std::isfinite(number)) return std::nullopt;
  return number;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::string Quoted(std::string_view text) {
  return "'" + std::string(text) + "'";
}

std::string ShapeText(const Shape& shape) {
  std::string text = "[";
  for (const int64_t extent : shape) {
    if (text.size() > 1) text += ',';
    text += std::to_string(extent);
  }
  return text + "]";
}

// Accepts the well-formed sequences of the Unicode Standard, table 3-7.
size_t Utf8SequenceBytes(std::string_view text) {
  const auto at = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto tail = [&](size_t i) { return (at(i) & 0xc0) == 0x80; };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4 || !tail(1)) return 0;
  if (first < 0xe0) return 2;
  if (!tail(2)) return 0;
  if (first == 0xe0 && at(1) < 0xa0) return 0;   // overlong
  if (first == 0xed && at(1) >= 0xa0) return 0;  // surrogate
  if (first < 0xf0) return 3;
  if (!tail(3)) return 0;
  if (first == 0xf0 && at(1) < 0x90) return 0;   // overlong
  if (first == 0xf4 && at(1) >= 0x90) return 0;  // beyond U+10FFFF
  return 4;
}

std::string PrintableText(std::string_view text) {
  std::string printable;
  printable.reserve(text.size());
  while (!text.empty()) {
    const size_t valid = Utf8SequenceBytes(text);
    const size_t taken = valid == 0 ? 1 : valid;
    const std::string_view sequence = text.substr(0, taken);
    if (valid == 0 || IsControl(sequence)) {
      AppendEscaped(sequence, &printable);
    } else {
      printable += sequence;
    }
    text.remove_prefix(taken);
  }
  return printable;
}

std::string ShortenedText(const std::string& text, size_t columns, bool utf8) {
  const size_t width = TextWidth(text);
  if (width <= columns) return text;
  const std::string_view ellipsis = utf8 ? "\u2026" : "...";
  const size_t kept = columns - std::min(columns, TextWidth(ellipsis));
  // The end of a name distinguishes the leaves of a layer, so it gets the odd
  // column.
  const size_t head = kept / 2;
  const size_t tail = width - (kept - head);
  std::string shortened;
  size_t column = 0;
  for (size_t i = 0; i < text.size(); ++column) {
    const size_t bytes = std::max<size_t>(
        1, Utf8SequenceBytes(std::string_view(text).substr(i)));
    if (column == head) shortened += ellipsis;
    if (column < head || column >= tail) shortened += text.substr(i, bytes);
    i += bytes;
  }
  return shortened;
}

std::string ShortenedName(const std::string& name, size_t columns, bool utf8) {
  constexpr size_t kWholeKeysAtEnd = 2;
  std::vector<std::string_view> keys = Split(name, '.');
  size_t width = TextWidth(name);
  for (size_t i = 0; i + kWholeKeysAtEnd < keys.size(); ++i) {
    if (width <= columns) break;
    const std::string_view key = keys[i];
    if (key.empty() || key.find_first_of("0123456789") != key.npos) continue;
    keys[i] = key.substr(0, std::max<size_t>(1, Utf8SequenceBytes(key)));
    width -= TextWidth(key) - TextWidth(keys[i]);
  }
  std::string shortened;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i > 0) shortened += '.';
    shortened += keys[i];
  }
  return ShortenedText(shortened, columns, utf8);
}

size_t TextWidth(std::string_view text) {
  size_t width = 0;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) ++width;
  }
  return width;
}

}  // namespace holdfast::cli
