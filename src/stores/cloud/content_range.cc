#include "stores/cloud/content_range.h"

#include <charconv>

namespace holdfast {
namespace {

// Removes the number at the start of `text` and returns it. Nullopt if it is
// not below 2^63, the limit of offsets.
std::optional<uint64_t> TakeNumber(std::string_view& text) {
  uint64_t number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number >> 63 != 0) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

bool TakeText(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

}  // namespace

std::optional<ContentRange> ParseContentRange(std::string_view value) {
  if (!TakeText(value, "bytes ")) return std::nullopt;
  const std::optional<uint64_t> first = TakeNumber(value);
  if (!first || !TakeText(value, "-")) return std::nullopt;
  const std::optional<uint64_t> last = TakeNumber(value);
  if (!last || !TakeText(value, "/")) return std::nullopt;
  const std::optional<uint64_t> total = TakeNumber(value);
  if (!total || !value.empty()) return std::nullopt;
  if (*first > *last || *last >= *total) return std::nullopt;
  return ContentRange{*first, *last - *first + 1, *total};
}

std::optional<uint64_t> ParseUnsatisfiedRange(std::string_view value) {
  if (!TakeText(value, "bytes */")) return std::nullopt;
  const std::optional<uint64_t> total = TakeNumber(value);
  if (!total || !value.empty()) return std::nullopt;
  return total;
}

}  // namespace holdfast
