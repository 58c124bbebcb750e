// S3Connection: signs and sends the requests to one bucket, and resends them
// where a changed request helps.
//
// An answer that reports a wrong region or clock contains the right one. After
// an answer that reports an expired session token, new credentials are fetched.
// In each case, the request is sent once more, but only once for each reason.
//
// Thread-safety: any thread. Ownership: a request borrows body, target and
// cancel token for the call. Units: nanoseconds since 1970.
// Errors: those of the credentials and of HttpClient. Any remaining HTTP status
// is an answer, from which Failure makes a Status.
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

// A request whose URL and signature the connection adds.
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
  // `clock` supplies the time to sign with, until the server's time is known.
  S3Connection(S3Settings settings, CredentialSource source,
               std::shared_ptr<HttpClient> client,
               S3Credentials::Clock clock = {});

  Result<HttpResponse> Send(const S3Request& request);
  // Sends all requests concurrently; results are in the order of the requests.
  std::vector<Result<HttpResponse>> SendAll(
      std::span<const S3Request> requests);

  // Sends a request that is answered with XML and status 200, and parses the
  // answer. `where` is put before the parser's error.
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

  // Returns "s3://bucket/key".
  std::string UrlOf(std::string_view key) const;
  Status Failure(const S3Request& request, const HttpResponse& response) const;
  Status Failure(const S3Request& request, int status,
                 const S3Error& error) const;

  // Returns the time in the last answer's Date; 0 before the first answer.
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
  // Changes what the answer shows to be wrong. Returns whether the request,
  // sent again, may then succeed. `done` records what has been changed so far.
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
  std::atomic<int64_t> clock_offset_ns_{0};  // the server's clock minus ours
  mutable std::mutex mutex_;
  std::string region_;  // guarded by mutex_
};

}  // namespace holdfast
