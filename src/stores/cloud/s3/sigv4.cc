#include "stores/cloud/s3/sigv4.h"

#include <algorithm>
#include <cctype>
#include <ctime>
#include <utility>
#include <vector>

#include "ground/base/coding.h"
#include "ground/base/sha256.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"

namespace holdfast {
namespace {

// Removes spaces at both ends, and reduces each run of spaces to one.
std::string TrimmedValue(std::string_view value) {
  std::string trimmed;
  for (const char c : value) {
    const bool is_space = c == ' ' || c == '\t';
    if (!is_space) {
      trimmed += c;
    } else if (!trimmed.empty() && trimmed.back() != ' ') {
      trimmed += ' ';
    }
  }
  while (!trimmed.empty() && trimmed.back() == ' ') trimmed.pop_back();
  return trimmed;
}

// Returns false for headers that the connection sets or that change on the way.
// They are not signed.
bool IsSignedHeader(std::string_view lower_name) {
  return lower_name != "authorization" && lower_name != "connection" &&
         lower_name != "content-length" && lower_name != "expect" &&
         lower_name != "transfer-encoding" && lower_name != "user-agent";
}

struct UrlParts {
  std::string_view authority, path, query;
};

Result<UrlParts> SplitUrl(std::string_view url) {
  const size_t scheme_end = url.find("://");
  if (scheme_end == std::string_view::npos) {
    return InvalidArgumentError("signing a request: its URL has no scheme");
  }
  UrlParts parts;
  const size_t host = scheme_end + 3;
  const size_t host_end = std::min(url.find_first_of("/?", host), url.size());
  parts.authority = url.substr(host, host_end - host);
  const size_t query = url.find('?', host_end);
  parts.path = url.substr(host_end, std::min(query, url.size()) - host_end);
  if (query != std::string_view::npos) parts.query = url.substr(query + 1);
  if (parts.path.empty()) parts.path = "/";
  return parts;
}

// Returns `key=value` for every parameter, sorted by key and value.
std::string CanonicalQuery(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> parameters;
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view parameter = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (parameter.empty()) continue;
    const size_t equals = std::min(parameter.find('='), parameter.size());
    parameters.emplace_back(
        parameter.substr(0, equals),
        parameter.substr(std::min(equals + 1, parameter.size())));
  }
  std::sort(parameters.begin(), parameters.end());
  std::string canonical;
  for (const auto& [key, value] : parameters) {
    if (!canonical.empty()) canonical += '&';
    canonical += key + '=' + value;
  }
  return canonical;
}

void SetHeader(HttpHeaders& headers, std::string_view name,
               std::string_view value) {
  std::erase_if(headers, [&](const auto& header) {
    return EqualsInAnyCase(header.first, name);
  });
  headers.emplace_back(name, value);
}

}  // namespace

std::string Sha256Hex(std::span<const std::string_view> pieces) {
  Sha256 hash;
  for (const std::string_view piece : pieces) hash.Update(piece);
  return hash.HexDigest();
}

std::string Sha256Hex(std::string_view text) {
  return Sha256Hex(std::span(&text, 1));
}

std::string AmzDate(int64_t seconds) {
  const auto time = static_cast<time_t>(seconds);
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  const size_t char_count =
      std::strftime(text, sizeof(text), "%Y%m%dT%H%M%SZ", &parts);
  return {text, char_count};
}

Result<std::string> CanonicalRequest(const HttpRequest& request,
                                     std::string_view payload_hash,
                                     std::string* signed_headers) {
  HF_ASSIGN_OR_RETURN(const UrlParts url, SplitUrl(request.url));
  std::vector<std::pair<std::string, std::string>> headers;
  bool has_host = false;
  for (const auto& [name, value] : request.headers) {
    std::string lower = LowerCase(name);
    if (!IsSignedHeader(lower)) continue;
    has_host |= lower == "host";
    headers.emplace_back(std::move(lower), TrimmedValue(value));
  }
  if (!has_host) headers.emplace_back("host", url.authority);
  std::stable_sort(
      headers.begin(), headers.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });

  std::string header_lines, names;
  for (size_t i = 0; i < headers.size(); ++i) {
    const auto& [name, value] = headers[i];
    if (i > 0 && headers[i - 1].first == name) {
      header_lines.back() = ',';  // one line per name
      header_lines += value + '\n';
      continue;
    }
    header_lines += name + ':' + value + '\n';
    if (!names.empty()) names += ';';
    names += name;
  }
  std::string text = request.method + '\n';
  text += url.path;
  text += '\n' + CanonicalQuery(url.query) + '\n' + header_lines + '\n' +
          names + '\n';
  text += payload_hash;
  *signed_headers = std::move(names);
  return text;
}

std::string SigningKeyCache::Get(const AwsKeys& keys, std::string_view day,
                                 const SigningScope& scope) {
  std::string name(day);
  for (const std::string_view part :
       {std::string_view(scope.region), std::string_view(scope.service),
        std::string_view(keys.access_key_id),
        std::string_view(keys.secret_access_key)}) {
    name += '\n';
    name += part;
  }
  const std::lock_guard lock(mutex_);
  if (name == name_) return key_;
  std::string key = HmacSha256("AWS4" + keys.secret_access_key, day);
  key = HmacSha256(key, scope.region);
  key = HmacSha256(key, scope.service);
  key = HmacSha256(key, "aws4_request");
  name_ = std::move(name);
  key_ = key;
  return key;
}

Status SignV4(const AwsKeys& keys, const SigningScope& scope,
              std::string_view payload_hash, SigningKeyCache& cache,
              HttpRequest& request) {
  const std::string date = AmzDate(scope.seconds);
  const std::string day = date.substr(0, 8);
  SetHeader(request.headers, "X-Amz-Date", date);
  if (scope.service == "s3") {
    SetHeader(request.headers, "X-Amz-Content-Sha256", payload_hash);
  }
  if (!keys.session_token.empty()) {
    SetHeader(request.headers, "X-Amz-Security-Token", keys.session_token);
  }
  std::string signed_headers;
  HF_ASSIGN_OR_RETURN(const std::string canonical,
                      CanonicalRequest(request, payload_hash, &signed_headers));
  const std::string place =
      day + '/' + scope.region + '/' + scope.service + "/aws4_request";
  const std::string to_sign =
      "AWS4-HMAC-SHA256\n" + date + '\n' + place + '\n' + Sha256Hex(canonical);
  const std::string mac = HmacSha256(cache.Get(keys, day, scope), to_sign);
  if (mac.size() != 32) {
    return InternalError("signing a request: OpenSSL computes no HMAC-SHA256");
  }
  SetHeader(request.headers, "Authorization",
            "AWS4-HMAC-SHA256 Credential=" + keys.access_key_id + '/' + place +
                ",SignedHeaders=" + signed_headers +
                ",Signature=" + ToHex(mac));
  return {};
}

}  // namespace holdfast
