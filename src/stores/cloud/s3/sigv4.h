// Signs requests with Amazon's Signature Version 4 in the Authorization header.
// As S3 requires, the path is signed exactly as it appears in the URL.
//
// Thread-safety: functions are pure; a SigningKeyCache may be used by any
// thread. Ownership: everything is copied or borrowed for the call. Units:
// seconds since 1970.
// Errors: InvalidArgument (a malformed URL), Internal (an OpenSSL failure). No
// message contains a secret.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "stores/http/http_client.h"

namespace holdfast {

struct AwsKeys {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;  // "": none
};

// Stands in for the payload's hash if TLS already protects the body.
inline constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";

// Returns the SHA-256 of the concatenated pieces in lower-case hex.
std::string Sha256Hex(std::span<const std::string_view> pieces);
std::string Sha256Hex(std::string_view text);

// The scope for which a request is signed.
struct SigningScope {
  std::string region;
  std::string service = "s3";
  int64_t seconds = 0;
};

// Formats seconds since 1970 as "20260102T030405Z".
std::string AmzDate(int64_t seconds);

// Returns the algorithm's canonical request. It covers Host and all headers
// except those that proxies change (Connection, Content-Length, Expect,
// Transfer-Encoding, User-Agent). `signed_headers` receives the covered
// headers' names.
Result<std::string> CanonicalRequest(const HttpRequest& request,
                                     std::string_view payload_hash,
                                     std::string* signed_headers);

// Remembers the last derived key, which is valid for a day.
class SigningKeyCache {
 public:
  // Returns the 32-byte key for the given day ("20260102"), region, service and
  // secret.
  std::string Get(const AwsKeys& keys, std::string_view day,
                  const SigningScope& scope);

 private:
  std::mutex mutex_;
  std::string name_;  // what key_ was derived from
  std::string key_;
};

// Adds the headers X-Amz-Date, X-Amz-Content-Sha256 (for s3),
// X-Amz-Security-Token and Authorization. Existing ones are replaced.
Status SignV4(const AwsKeys& keys, const SigningScope& scope,
              std::string_view payload_hash, SigningKeyCache& cache,
              HttpRequest& request);

}  // namespace holdfast
