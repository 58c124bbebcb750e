// Parses and escapes URLs, and removes secrets from them for messages.
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
  std::string host;    // the bucket in s3:// and gs://
  uint16_t port = 0;   // 0: the scheme's default
  std::string path;    // as written, with its leading '/', or ""
  std::string query;   // without '?'
};

// Parses RFC 3986's hierarchical form. Refuses a user, a password and a
// fragment, and in http:// and https:// also characters that must be escaped.
// Unescapes nothing.
Result<Url> ParseUrl(std::string_view text);

// Percent-escape everything but A-Z a-z 0-9 - . _ ~ (and '/' in EscapePath), as
// SigV4 and Google's JSON API require.
std::string EscapePath(std::string_view text);
std::string EscapeComponent(std::string_view text);

// Returns the URL without user, password, query and fragment, for messages.
// Text that is not a URL is cut down to the part that certainly contains none
// of these.
std::string RedactUrl(std::string_view text);

// Resolves the Location header `reference` of an answer from `base`. Leaves
// ".." as it is.
Result<std::string> ResolveUrl(std::string_view base,
                               std::string_view reference);

// Returns "https://host:8443", without the port if it is the scheme's default.
// URLs of the same server give equal strings.
std::string OriginOf(const Url& url);

}  // namespace holdfast
