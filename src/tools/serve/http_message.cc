#include "tools/serve/http_message.h"

#include <algorithm>

#include "ground/base/text.h"

namespace holdfast {
namespace {

std::optional<std::string> Decode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = HexDigit(text[i + 1]);
      const int low = HexDigit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (c == '\0') return std::nullopt;
    decoded += c;
  }
  return decoded;
}

}  // namespace

std::optional<ServedTarget> ParseTarget(std::string_view target) {
  if (!target.starts_with('/')) return std::nullopt;
  target = target.substr(0, target.find('#'));
  const size_t mark = target.find('?');
  ServedTarget parsed;
  const auto path = Decode(target.substr(0, mark));
  if (!path.has_value()) return std::nullopt;
  parsed.path = *path;
  std::string_view query =
      mark == std::string_view::npos ? "" : target.substr(mark + 1);
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const size_t equals = pair.find('=');
    const auto name = Decode(pair.substr(0, equals));
    const auto value =
        Decode(equals == std::string_view::npos ? "" : pair.substr(equals + 1));
    if (!name || !value) return std::nullopt;
    parsed.query[*name] = *value;
  }
  return parsed;
}

std::string EncodePart(std::string_view part) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : part) {
    if (kPlain.find(c) != std::string_view::npos) {
      encoded += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return encoded;
}

std::string EscapeHtml(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

ServedResponse TextResponse(int status, std::string text,
                            std::string_view type) {
  ServedResponse response;
  response.status = status;
  response.fields.emplace_back("Content-Type", type);
  response.text = std::move(text);
  return response;
}

RangeKind ParseRange(std::string_view field, uint64_t byte_count,
                     ServedRange& range) {
  constexpr std::string_view kUnit = "bytes=";
  if (!field.starts_with(kUnit)) return RangeKind::kWhole;
  field = TrimSpaces(field.substr(kUnit.size()));
  const size_t dash = field.find('-');
  if (field.find(',') != std::string_view::npos ||
      dash == std::string_view::npos) {
    return RangeKind::kWhole;
  }
  const std::string_view first_text = TrimSpaces(field.substr(0, dash));
  const std::string_view last_text = TrimSpaces(field.substr(dash + 1));
  const auto first = ParseNumber<uint64_t>(first_text);
  const auto last = ParseNumber<uint64_t>(last_text);
  if (first_text.empty()) {
    if (!last) return RangeKind::kWhole;
    if (*last == 0 || byte_count == 0) return RangeKind::kOutside;
    range.byte_count = std::min(*last, byte_count);
    range.offset = byte_count - range.byte_count;
    return RangeKind::kPart;
  }
  if (!first || (!last && !last_text.empty()) || (last && *last < *first)) {
    return RangeKind::kWhole;
  }
  if (*first >= byte_count) return RangeKind::kOutside;
  range.offset = *first;
  range.byte_count =
      (last ? std::min(*last, byte_count - 1) : byte_count - 1) - *first + 1;
  return RangeKind::kPart;
}

bool HasTag(std::string_view list, std::string_view tag, bool is_weak) {
  while (!list.empty()) {
    std::string_view one = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), one.size() + 1));
    one = TrimSpaces(one);
    if (one == "*") return true;
    if (one.starts_with("W/")) {
      if (!is_weak) continue;
      one.remove_prefix(2);
    }
    if (one == tag) return true;
  }
  return false;
}

ServedResponse FileResponse(
    const ServedRequest& request, uint64_t byte_count, const std::string& tag,
    std::string_view type,
    std::function<Status(uint64_t offset, std::span<char> target)> content) {
  ServedResponse response;
  const std::string quoted = "\"" + tag + "\"";
  response.fields = {{"Content-Type", std::string(type)},
                     {"Accept-Ranges", "bytes"},
                     {"ETag", quoted}};
  const std::string_view match = request.Field("if-match");
  if (!match.empty() && !HasTag(match, quoted, false)) {
    response.status = 412;
    return response;
  }
  const std::string_view none_match = request.Field("if-none-match");
  if (!none_match.empty() && HasTag(none_match, quoted, true)) {
    response.status = 304;
    return response;
  }
  ServedRange range{0, byte_count};
  const std::string_view if_range = request.Field("if-range");
  const bool may_be_part = if_range.empty() || if_range == quoted;
  const RangeKind kind =
      may_be_part ? ParseRange(request.Field("range"), byte_count, range)
                  : RangeKind::kWhole;
  if (kind == RangeKind::kOutside) {
    response.status = 416;
    response.fields.emplace_back("Content-Range",
                                 "bytes */" + std::to_string(byte_count));
    return response;
  }
  if (kind == RangeKind::kPart) {
    response.status = 206;
    response.fields.emplace_back(
        "Content-Range",
        "bytes " + std::to_string(range.offset) + "-" +
            std::to_string(range.offset + range.byte_count - 1) + "/" +
            std::to_string(byte_count));
  }
  response.content = std::move(content);
  response.content_offset = range.offset;
  response.content_bytes = range.byte_count;
  return response;
}

}  // namespace holdfast
