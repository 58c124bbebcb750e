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

// RFC 3986's hierarchical form. User, password and fragment are refused; in
// http:// and https:// also what must be escaped. Nothing is unescaped.
Result<Url> ParseUrl(std::string_view text);

// Percent-escapes all but A-Z a-z 0-9 - . _ ~ (and '/' in EscapePath), as SigV4
// and Google's JSON API want it.
std::string EscapePath(std::string_view text);
std::string EscapeComponent(std::string_view text);

// For messages: without user, password, query and fragment. A text that is no
// URL is cut down to what is surely none of these.
std::string RedactUrl(std::string_view text);

// The URL that a Location header `reference` in an answer of `base` stands for.
// ".." stays as it is.
Result<std::string> ResolveUrl(std::string_view base,
                               std::string_view reference);

// "https://host:8443", without the scheme's own port: equal for URLs of one
// server.
std::string OriginOf(const Url& url);

}  // namespace holdfast
