// Parses the header Content-Range, which says which bytes an answer holds, out
// of how many.
//
// Thread-safety: pure functions. Units: bytes. Errors: nullopt for anything
// that does not have exactly the form of RFC 9110, 14.4, or whose numbers
// disagree.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace holdfast {

struct ContentRange {
  uint64_t offset = 0;
  uint64_t byte_count = 0;  // > 0
  uint64_t total_bytes = 0;
};

// Parses "bytes 100-199/1234", from a 206 answer.
std::optional<ContentRange> ParseContentRange(std::string_view value);
// Returns 1234 for "bytes */1234", from a 416 answer.
std::optional<uint64_t> ParseUnsatisfiedRange(std::string_view value);

}  // namespace holdfast
