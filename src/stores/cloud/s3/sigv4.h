// Amazon's Signature Version 4 in the Authorization header, in the form that S3
// wants: the path is signed as it stands in the URL.
//
// Thread-safety: functions are pure; a SigningKeyCache may be used by any
// threads. Ownership: everything is copied or borrowed for the call. Units:
// seconds since 1970.
// Errors: InvalidArgument (a malformed URL), Internal (OpenSSL refuses).
// Secrets appear in no message.
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

// Stands in place of a hash where TLS already guards the body.
inline constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";

// Lower-case hex of the SHA-256 of the pieces put together.
std::string Sha256Hex(std::span<const std::string_view> pieces);
std::string Sha256Hex(std::string_view text);

// The facts signed with one key for one request.
struct SigningScope {
  std::string region;
  std::string service = "s3";
  int64_t seconds = 0;
};

// "20260102T030405Z" of seconds since 1970.
std::string AmzDate(int64_t seconds);

// The first text of the algorithm. Signed are Host and all headers but those
// that proxies own (Connection, Content-Length, Expect, Transfer-Encoding,
// User-Agent). `signed_headers` gets their names.
Result<std::string> CanonicalRequest(const HttpRequest& request,
                                     std::string_view payload_hash,
                                     std::string* signed_headers);

// Remembers the last derived key, which is good for a day.
class SigningKeyCache {
 public:
  // 32 bytes for one day ("20260102"), region, service and secret.
  std::string Get(const AwsKeys& keys, std::string_view day,
                  const SigningScope& scope);

 private:
  std::mutex mutex_;
  std::string name_;  // what key_ was made of
  std::string key_;
};

// Adds X-Amz-Date, X-Amz-Content-Sha256 (for s3), X-Amz-Security-Token and
// Authorization; existing ones are replaced.
Status SignV4(const AwsKeys& keys, const SigningScope& scope,
              std::string_view payload_hash, SigningKeyCache& cache,
              HttpRequest& request);

}  // namespace holdfast
