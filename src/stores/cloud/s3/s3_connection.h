// S3Connection: one bucket's requests, signed, sent, and sent again where
// asking differently helps.
//
// An answer that says that the region or the clock is wrong teaches them, one
// that the session token has expired makes the credentials be fetched anew;
// then the request is sent once more, for each reason once.
//
// Thread-safety: any thread. Ownership: a request borrows body, target and
// cancel token for the call. Units: nanoseconds since 1970.
// Errors: of the credentials and of HttpClient; any status that remains is an
// answer, which Failure turns into words.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ground/base/status_macros.h"
#include "holdfast/status.h"
#include "stores/cloud/answer_headers.h"
#include "stores/cloud/s3/s3_credentials.h"
#include "stores/cloud/s3/s3_error.h"
#include "stores/cloud/s3/s3_settings.h"
#include "stores/cloud/s3/sigv4.h"
#include "stores/http/http_client.h"

namespace holdfast {

// The connection makes its URL and signs it.
struct S3Request : HttpRequest {
  S3Request(std::string_view action, std::string_view method,
            std::string_view key = "")
      : action(action), key(key) {
    this->method = method;
    body_bytes_max = 16 << 20;
  }

  std::string action;  // for messages: "reading"
  std::string key;     // "": the bucket
  // Keys and values are not escaped.
  std::vector<std::pair<std::string, std::string>> query;
};

class S3Connection {
 public:
  // `clock_ns` tells the time to sign with, before the server's is known.
  S3Connection(S3Settings settings, CredentialSource source,
               std::shared_ptr<HttpClient> client,
               S3Credentials::Clock clock = {});

  Result<HttpResponse> Send(const S3Request& request);
  // All at once; in the order of the requests.
  std::vector<Result<HttpResponse>> SendAll(
      std::span<const S3Request> requests);

  // For requests that XML answers with status 200: sends, and parses it. The
  // parser's error gets `where` in front.
  template <typename Parse>
  auto Ask(const S3Request& request, const std::string& where, Parse parse)
      -> decltype(parse(std::string_view())) {
    HF_ASSIGN_OR_RETURN(const HttpResponse response, Send(request));
    const std::string_view xml = response.body.view();
    if (response.status != 200 || IsErrorDocument(xml)) {
      return Failure(request, response);
    }
    auto parsed = parse(xml);
    return parsed.ok() ? std::move(parsed) : parsed.status().WithContext(where);
  }

  // "s3://bucket/key".
  std::string UrlOf(std::string_view key) const;
  Status Failure(const S3Request& request, const HttpResponse& response) const;
  Status Failure(const S3Request& request, int status,
                 const S3Error& error) const;

  // The time of the last answer's Date; 0 before the first.
  int64_t server_time_ns() const { return server_clock_.now_ns(); }
  std::string region() const;
  const S3Settings& settings() const { return settings_; }
  S3Credentials& credentials() { return credentials_; }

 private:
  // Why a request was sent again.
  enum Mend : unsigned { kRegion = 1, kClock = 2, kToken = 4, kTimeout = 8 };

  HttpRequest Build(const S3Request& request) const;
  Status Sign(HttpRequest& attempt, const std::string& region,
              const std::string& payload_hash);
  // Whether asking once more may help; what was done so far is in `done`.
  bool MendFor(const HttpResponse& response, unsigned& done);
  bool LearnRegion(const HttpResponse& response, const S3Error& error);
  bool LearnClock(const HttpResponse& response, const S3Error& error);
  bool RenewToken(const S3Error& error, int status);

  const S3Settings settings_;
  const std::shared_ptr<HttpClient> client_;
  const S3Credentials::Clock clock_;
  S3Credentials credentials_;
  SigningKeyCache key_cache_;
  ServerClock server_clock_;
  std::atomic<int64_t> clock_offset_ns_{0};  // the server's less ours
  mutable std::mutex mutex_;
  std::string region_;  // guarded by mutex_
};

}  // namespace holdfast
