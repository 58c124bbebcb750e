#include "stores/http/url.h"

#include <algorithm>
#include <array>
#include <optional>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"

namespace holdfast {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool IsScheme(std::string_view text) {
  if (text.empty() || !IsLetter(text[0])) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return IsLetter(c) || IsDigit(c) || c == '+' || c == '-' || c == '.';
  });
}

bool IsControl(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

bool IsHostCharacter(char c) {
  constexpr std::string_view kOthers = "-._~%!$&'()*+,;=";
  return IsLetter(c) || IsDigit(c) || (c & 0x80) != 0 ||
         kOthers.find(c) != std::string_view::npos;
}

bool IsHost(std::string_view host) {
  if (host.empty()) return false;
  if (host.front() == '[') {
    return host.size() > 2 && host.back() == ']' &&
           std::all_of(host.begin() + 1, host.end() - 1,
                       [](char c) { return IsHostCharacter(c) || c == ':'; });
  }
  return std::all_of(host.begin(), host.end(), IsHostCharacter);
}

// Returns the position of the port's ':' in "host:port" or "[::1]:port"; npos
// if there is no port.
size_t PortColon(std::string_view authority) {
  const size_t bracket = authority.rfind(']');
  return authority.find(':', bracket == std::string_view::npos ? 0 : bracket);
}

// Returns 0 for an empty `text`, and nullopt if `text` is not a port number.
std::optional<uint16_t> ParsePort(std::string_view text) {
  if (text.empty()) return 0;
  const auto port = ParseNumber<uint16_t>(text);
  return port == 0 || text.size() > 5 ? std::nullopt : port;
}

struct UrlParts {
  std::string_view scheme, authority, path, query;
  bool has_fragment = false;
};

// Splits a URL into its parts; nullopt without a "scheme://".
std::optional<UrlParts> SplitUrl(std::string_view text) {
  const size_t colon = text.find("://");
  if (colon == std::string_view::npos || !IsScheme(text.substr(0, colon))) {
    return std::nullopt;
  }
  UrlParts parts;
  parts.scheme = text.substr(0, colon);
  std::string_view rest = text.substr(colon + 3);
  const size_t fragment = rest.find('#');
  parts.has_fragment = fragment != std::string_view::npos;
  rest = rest.substr(0, fragment);
  const size_t question = rest.find('?');
  if (question != std::string_view::npos) {
    parts.query = rest.substr(question + 1);
    rest = rest.substr(0, question);
  }
  const size_t slash = std::min(rest.find('/'), rest.size());
  parts.authority = rest.substr(0, slash);
  parts.path = rest.substr(slash);
  return parts;
}

std::string Escape(std::string_view text, bool keeps_slash) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  constexpr std::string_view kPlain = "-._~";
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    if (IsLetter(c) || IsDigit(c) || kPlain.find(c) != std::string_view::npos ||
        (keeps_slash && c == '/')) {
      escaped += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    escaped += '%';
    escaped += kHex[byte >> 4];
    escaped += kHex[byte & 15];
  }
  return escaped;
}

std::string WithoutControls(std::string_view text) {
  std::string shown(text);
  std::replace_if(shown.begin(), shown.end(), IsControl, '.');
  return shown;
}

Status BadUrl(std::string_view text, std::string_view why) {
  return InvalidArgumentError("URL " + RedactUrl(text) + ": " +
                              std::string(why));
}

}  // namespace

Result<Url> ParseUrl(std::string_view text) {
  const std::optional<UrlParts> parts = SplitUrl(text);
  if (!parts) return BadUrl(text, "has no scheme:// at its beginning");
  Url url;
  url.scheme = LowerCase(parts->scheme);
  const bool is_http = url.scheme == "http" || url.scheme == "https";
  // Messages and logs would reveal a user or password.
  if (parts->authority.find('@') != std::string_view::npos) {
    return BadUrl(text, "has a user or password, which is refused");
  }
  if (parts->has_fragment) {
    return BadUrl(text, "has a fragment (#), which no server would see");
  }
  const bool is_bad = std::any_of(text.begin(), text.end(), [&](char c) {
    return c == '\0' || (is_http && (IsControl(c) || c == ' '));
  });
  if (is_bad) return BadUrl(text, "has bytes that must be escaped");
  const size_t colon = PortColon(parts->authority);
  url.host = parts->authority.substr(0, colon);
  if (!IsHost(url.host)) return BadUrl(text, "has no host, or a wrong one");
  if (is_http) url.host = LowerCase(url.host);
  if (colon != std::string_view::npos) {
    const auto port = ParsePort(parts->authority.substr(colon + 1));
    if (!port) return BadUrl(text, "has a port that is not 0 to 65535");
    url.port = *port;
  }
  url.path = parts->path;
  url.query = parts->query;
  return url;
}

std::string EscapePath(std::string_view text) { return Escape(text, true); }

std::string EscapeComponent(std::string_view text) {
  return Escape(text, false);
}

std::string RedactUrl(std::string_view text) {
  const size_t end = std::min(text.find_first_of("?#"), text.size());
  const size_t scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos || scheme_end > end) {
    // This is not a URL. A password may precede an '@', so everything up to the
    // '@' is removed.
    const size_t at = text.substr(0, end).rfind('@');
    return WithoutControls(at == std::string_view::npos
                               ? text.substr(0, end)
                               : text.substr(at + 1, end - at - 1));
  }
  const std::string_view scheme = text.substr(0, scheme_end + 3);
  std::string_view rest = text.substr(scheme.size(), end - scheme.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  const size_t at = rest.substr(0, slash).rfind('@');
  if (at != std::string_view::npos) rest = rest.substr(at + 1);
  // A password that contains a '/' or '?' looks like the end of a host:
  // "http://u:a/b@host" seems to have the port "a".
  const std::string_view authority = rest.substr(0, rest.find('/'));
  const size_t colon = PortColon(authority);
  if (colon != std::string_view::npos &&
      !ParsePort(authority.substr(colon + 1))) {
    return WithoutControls(scheme) + "...";
  }
  return WithoutControls(scheme) + WithoutControls(rest);
}

Result<std::string> ResolveUrl(std::string_view base,
                               std::string_view reference) {
  HF_ASSIGN_OR_RETURN(const Url from, ParseUrl(base));
  reference = reference.substr(0, reference.find('#'));
  std::string resolved;
  if (SplitUrl(reference)) {
    resolved = reference;
  } else if (reference.starts_with("//")) {
    resolved = from.scheme + ":" + std::string(reference);
  } else {
    resolved = OriginOf(from);
    if (!reference.starts_with("/")) {
      resolved += from.path.substr(0, from.path.rfind('/')) + "/";
    }
    resolved += reference;
  }
  HF_RETURN_IF_ERROR(ParseUrl(resolved).status());
  return resolved;
}

std::string OriginOf(const Url& url) {
  const uint16_t usual = url.scheme == "https" ? 443 : 80;
  const bool has_port = url.port != 0 && url.port != usual;
  return url.scheme + "://" + url.host +
         (has_port ? ":" + std::to_string(url.port) : "");
}

}  // namespace holdfast
