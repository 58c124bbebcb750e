// Parses and escapes URLs, and shows them without their secrets.
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
  std::string host;    // for s3:// and gs:// the bucket
  uint16_t port = 0;   // 0: the scheme's default
  std::string path;    // as written, with its leading '/', or ""
  std::string query;   // without '?'
};

// RFC 3986's hierarchical form. User, password and fragment are refused; in
// http:// and https:// also characters that must be escaped. Nothing is
// unescaped.
Result<Url> ParseUrl(std::string_view text);

// Percent-escapes everything but A-Z a-z 0-9 - . _ ~ (and '/' in EscapePath),
// as SigV4 and Google's JSON API require.
std::string EscapePath(std::string_view text);
std::string EscapeComponent(std::string_view text);

// For messages: removes user, password, query and fragment. A text that is not
// a URL is cut down to the part that certainly contains none of these.
std::string RedactUrl(std::string_view text);

// Resolves the Location header `reference` of an answer from `base`. ".." is
// left as it is.
Result<std::string> ResolveUrl(std::string_view base,
                               std::string_view reference);

// "https://host:8443", without the scheme's default port: equal for URLs of the
// same server.
std::string OriginOf(const Url& url);

}  // namespace holdfast
