// Requests and responses as values, and the parts of HTTP syntax that serving
// files needs: targets, ranges, entity tags (RFC 9110).
//
// Thread-safety: pure functions. Units: bytes.
// Errors: nullopt for malformed input.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

struct ServedTarget {
  std::string path;  // decoded; begins with '/'
  std::map<std::string, std::string> query;
};
// Returns nullopt for a target that is not a path, that has a '%' without two
// hexadecimal digits, or that contains a NUL.
std::optional<ServedTarget> ParseTarget(std::string_view target);
// Percent-encodes a part of a path for use in a link.
std::string EncodePart(std::string_view part);
std::string EscapeHtml(std::string_view text);

struct ServedRequest {
  bool is_head = false;
  ServedTarget target;
  // The known header fields, in lower case.
  std::map<std::string, std::string, std::less<>> fields;

  std::string_view Field(std::string_view name) const {
    const auto found = fields.find(name);
    return found == fields.end() ? std::string_view() : found->second;
  }
};

struct ServedResponse {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> fields;
  std::string text;
  // If set, the body is not `text` but `content_bytes` bytes of this content
  // from `content_offset` on.
  std::function<Status(uint64_t offset, std::span<char> target)> content;
  uint64_t content_offset = 0;
  uint64_t content_bytes = 0;

  uint64_t byte_count() const { return content ? content_bytes : text.size(); }
};
ServedResponse TextResponse(
    int status, std::string text,
    std::string_view type = "text/plain; charset=utf-8");

struct ServedRange {
  uint64_t offset = 0;
  uint64_t byte_count = 0;
};
enum class RangeKind : uint8_t { kWhole, kPart, kOutside };
// Sets `range` to the part of `byte_count` bytes that a Range field asks for.
// Several ranges, or anything that is not a range of bytes, count as a request
// for everything, as the RFC allows.
RangeKind ParseRange(std::string_view field, uint64_t byte_count,
                     ServedRange& range);
// Returns true if the list of tags (or "*") contains this tag. Weak tags match
// only with `is_weak`.
bool HasTag(std::string_view list, std::string_view tag, bool is_weak);

// Builds the response for a file: 200, 206, 304, 412 or 416, depending on the
// request's conditions.
ServedResponse FileResponse(
    const ServedRequest& request, uint64_t byte_count, const std::string& tag,
    std::string_view type,
    std::function<Status(uint64_t offset, std::span<char> target)> content);

}  // namespace holdfast
