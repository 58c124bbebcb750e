#include "stores/http/http_date.h"

#include <array>
#include <chrono>

namespace holdfast {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;
// The nanoseconds of much later years do not fit in 63 bits.
constexpr int kIsoYearMax = 2200;

// Returns the number written in `count` digits at `offset`; a negative number
// if it is malformed.
int DigitsAt(std::string_view text, size_t offset, size_t count) {
  int number = 0;
  for (const char c : text.substr(offset, count)) {
    if (c < '0' || c > '9') return -1;
    number = number * 10 + (c - '0');
  }
  return number;
}

// Returns the month's number, counted from 1; 0 if the name is unknown.
int MonthNumber(std::string_view name) {
  constexpr std::array<std::string_view, 12> kNames = {
      "Jan", "Feb", "Mar", "Apr", "May", "Jun",
      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<int>(i) + 1;
  }
  return 0;
}

bool IsOneOf(std::string_view characters, char c) {
  return characters.find(c) != std::string_view::npos;
}

std::optional<int64_t> SecondsOf(int year, int month, int day, int hour,
                                 int minute, int second) {
  const std::chrono::year_month_day date{
      std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
      std::chrono::day(static_cast<unsigned>(day))};
  if (year < 1970 || !date.ok() || hour < 0 || hour > 23 || minute < 0 ||
      minute > 59 || second < 0 || second > 60) {
    return std::nullopt;
  }
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return days * 86400 + hour * 3600 + minute * 60 + second;
}

// Parses a fraction (".123456") at the start of `text`, removes it, and returns
// it in nanoseconds.
int64_t TakeFraction(std::string_view& text) {
  if (!text.starts_with('.')) return 0;
  text.remove_prefix(1);
  int64_t ns = 0;
  for (int64_t unit_ns = kNsPerSecond / 10;
       !text.empty() && text[0] >= '0' && text[0] <= '9'; unit_ns /= 10) {
    ns += unit_ns * (text[0] - '0');
    text.remove_prefix(1);
  }
  return ns;
}

// Returns how many seconds a zone ("", "Z", "+01:30" or "-0400") is ahead of
// UTC.
std::optional<int64_t> ZoneSeconds(std::string_view zone) {
  if (zone.empty() || zone == "Z" || zone == "z") return 0;
  const size_t minutes_at = zone.size() == 6 && zone[3] == ':' ? 4 : 3;
  if (zone.size() != minutes_at + 2 || !IsOneOf("+-", zone[0])) {
    return std::nullopt;
  }
  const int hours = DigitsAt(zone, 1, 2);
  const int minutes = DigitsAt(zone, minutes_at, 2);
  if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59) {
    return std::nullopt;
  }
  const int64_t seconds = hours * 3600 + minutes * 60;
  return zone[0] == '+' ? seconds : -seconds;
}

}  // namespace

std::optional<int64_t> ParseHttpDate(std::string_view text) {
  // 0----5--8---12---17-20-23-26
  // Sun, 06 Nov 1994 08:49:37 GMT
  if (text.size() != 29 || text.substr(3, 2) != ", " || text[7] != ' ' ||
      text[11] != ' ' || text[16] != ' ' || text[19] != ':' ||
      text[22] != ':' || text.substr(25) != " GMT") {
    return std::nullopt;
  }
  const int day = DigitsAt(text, 5, 2);
  const int month = MonthNumber(text.substr(8, 3));
  const int year = DigitsAt(text, 12, 4);
  const int hour = DigitsAt(text, 17, 2);
  const int minute = DigitsAt(text, 20, 2);
  const int second = DigitsAt(text, 23, 2);
  return SecondsOf(year, month, day, hour, minute, second);
}

std::optional<int64_t> ParseIsoTime(std::string_view text) {
  // 0----5--8--11-14-17
  // 2026-01-02T03:04:05
  if (text.size() < 19 || text[4] != '-' || text[7] != '-' ||
      !IsOneOf("Tt ", text[10]) || text[13] != ':' || text[16] != ':') {
    return std::nullopt;
  }
  const int year = DigitsAt(text, 0, 4);
  const auto seconds = SecondsOf(year, DigitsAt(text, 5, 2),
                                 DigitsAt(text, 8, 2), DigitsAt(text, 11, 2),
                                 DigitsAt(text, 14, 2), DigitsAt(text, 17, 2));
  if (!seconds || year > kIsoYearMax) return std::nullopt;
  text.remove_prefix(19);
  const int64_t fraction_ns = TakeFraction(text);
  const auto zone = ZoneSeconds(text);
  if (!zone) return std::nullopt;
  return (*seconds - *zone) * kNsPerSecond + fraction_ns;
}

}  // namespace holdfast
