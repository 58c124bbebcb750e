// URLs: taken apart, escaped, and shown without their secrets.
//
// Thread-safety: pure functions. Units: none.
// Errors: InvalidArgument with the redacted URL.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

struct Url {
  std::string scheme;  // lower case
  std::string host;    // of s3:// and gs:// the bucket
  uint16_t port = 0;   // 0: the scheme's own
  std::string path;    // as it stands, with its leading '/', or ""
  std::string query;   // without '?'
};

// RFC 3986's hierarchical form. User and password are refused.
Result<Url> ParseUrl(std::string_view text);

// Percent-escapes all but A-Z a-z 0-9 - . _ ~ (and '/' in EscapePath), as SigV4
// and Google's JSON API want it.
std::string EscapePath(std::string_view text);
std::string EscapeComponent(std::string_view text);

// For messages: without user, password, query and fragment.
std::string RedactUrl(std::string_view text);

}  // namespace holdfast
