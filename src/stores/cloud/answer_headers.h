// Reads numbers and times from answers' headers.
//
// Thread-safety: pure functions; any thread may use a ServerClock. Units:
// nanoseconds since 1970. Errors: nullopt if there is no such header, or its
// value is malformed.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ground/base/text.h"
#include "stores/http/http_client.h"
#include "stores/http/http_date.h"

namespace holdfast {

inline std::optional<uint64_t> NumberHeader(const HttpHeaders& headers,
                                            std::string_view name) {
  return ParseNumber<uint64_t>(FindHeader(headers, name).value_or(""));
}

// Returns the time in a header that holds an HTTP date.
inline std::optional<int64_t> TimeHeaderNs(const HttpHeaders& headers,
                                           std::string_view name) {
  const auto seconds = ParseHttpDate(FindHeader(headers, name).value_or(""));
  if (!seconds) return std::nullopt;
  return *seconds * 1'000'000'000;
}

// A server's time, as its last answer reported it.
class ServerClock {
 public:
  void Note(const HttpHeaders& headers) {
    if (const auto time_ns = TimeHeaderNs(headers, "date")) now_ns_ = *time_ns;
  }
  int64_t now_ns() const { return now_ns_; }  // 0 before the first answer

 private:
  std::atomic<int64_t> now_ns_{0};
};

}  // namespace holdfast
