// HttpClient: requests over HTTP/1.1 with kept-alive connections, and the one
// place that knows of retries.
//
// One thread of the client's own drives all transfers (libcurl's multi
// interface); callers wait, or are called back. A request is sent again, after
// an exponential backoff with jitter, when the answer is 408, 429, 500, 502,
// 503 or 504 (a Retry-After is obeyed) or when the connection is lost before
// the whole answer is there, as long as attempts and time are left. A server
// that never began an answer to this client is given up after four attempts, or
// after two when connecting took three seconds. How many requests are in flight
// is bounded, and the bound adapts: it grows while answers come and is halved
// when a server asks to slow down.
// GET and HEAD without `prepare` follow up to five redirects, never from https
// to http; to another server go no headers but those that say what is wanted.
// Any other redirect is an answer.
// TLS certificates are always checked. Proxies come from the environment, as
// libcurl reads it (https_proxy, no_proxy, ...).
// Messages name the URL without user, password and query; headers never appear
// in any message or log.
//
// Thread-safety: any thread; callbacks run on the client's thread, must be
// short, and must neither call Send nor destroy the client. After fork() the
// child's first request begins with a thread and connections of its own; what
// was in flight in the parent goes on there, and its callbacks never run in the
// child.
// Ownership: a request borrows its body, target and cancel token until its
// answer is given. Units: bytes, milliseconds.
// Errors: of Send and callbacks, when no answer could be had: Unavailable (no
// connection, lost connections, all attempts used up), DeadlineExceeded,
// Cancelled, InvalidArgument (bad URL), FailedPrecondition (certificate not
// trusted; no libcurl on this machine), DataLoss (an answer longer than its
// target), ResourceExhausted (no memory, or no thread: then the callback runs
// on the caller's). Any HTTP status that remains after the retries is an answer
// and no error.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ground/base/bytes.h"
#include "ground/base/cancel.h"
#include "holdfast/status.h"
#include "holdfast/tools/remote.h"

namespace holdfast {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// The value of the first header of that name, in any case; absent when none.
std::optional<std::string_view> FindHeader(const HttpHeaders& headers,
                                           std::string_view name);

struct HttpRequest {
  std::string method = "GET";
  std::string url;  // escaped, http:// or https://
  HttpHeaders headers;
  std::vector<std::string_view> body;  // borrowed

  // Called on the client's thread before every attempt with a copy of the
  // request, to sign it anew; must not wait for the network. A failure ends
  // the request.
  std::function<Status(HttpRequest& attempt)> prepare;

  // The body of an answer with status `target_status` goes here, from the first
  // byte; a longer body is DataLoss. Other bodies, and all bodies where the
  // target is empty, go to HttpResponse::body. They are cut at
  // `body_bytes_max`, except that an answer that was asked for (2xx, no target)
  // is DataLoss when it is longer.
  std::span<char> target;
  int target_status = 206;
  uint64_t body_bytes_max = 64 << 20;

  // False where a second arrival at the server would do harm that the caller
  // cannot tell; then only what surely was not done is sent again (no
  // connection; 429).
  bool may_repeat = true;
  // A second copy is sent when the answer lags far behind what requests of this
  // size lately took, and the first whole answer wins. Only for GET, and only
  // when the client's options hedge and no more than 2 % of the bytes of
  // all such requests came twice.
  bool may_hedge = false;
  // All attempts together, from the first on; absent: the client's options.
  std::optional<std::chrono::milliseconds> deadline;
  const CancelToken* cancel = nullptr;  // borrowed; looked at often
};

struct HttpResponse {
  int status = 0;
  HttpHeaders headers;
  Bytes body;
  uint64_t target_bytes = 0;  // how much of the target is filled
  int attempt_count = 1;      // redirects are not counted
};

struct HttpOptions {
  int in_flight_max = 64;
  int attempt_count_max = 12;  // throttling for a minute
  std::chrono::milliseconds connect_deadline{10'000};
  // No byte for so long counts as a lost connection.
  std::chrono::milliseconds stall_deadline{30'000};
  std::chrono::milliseconds request_deadline{300'000};
  std::chrono::milliseconds backoff_first{100};
  std::chrono::milliseconds backoff_max{20'000};
  bool hedge = true;
  // A file of trusted certificates; "": from HOLDFAST_CA_BUNDLE,
  // AWS_CA_BUNDLE, SSL_CERT_FILE, CURL_CA_BUNDLE or the system's usual places.
  std::string ca_bundle;
  std::string user_agent;    // "": "holdfast/<version>"
  uint64_t jitter_seed = 0;  // 0: random
  // Told of throttling and retries, a line at most every ten seconds; on the
  // client's thread. Empty: standard error where HOLDFAST_LOG is "stderr", else
  // nowhere.
  std::function<void(std::string_view line)> log;
};

using HttpCounters = RemoteCounters;

// The counters of all clients that this process has had.
HttpCounters TotalHttpCounters();

class HttpClient {
 public:
  using Callback = std::function<void(Result<HttpResponse>)>;

  // No I/O, no thread, no libcurl before the first request.
  explicit HttpClient(HttpOptions options = {});
  // Cancels what is in flight; callbacks have run when it returns.
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  Result<HttpResponse> Send(const HttpRequest& request);
  // The callback runs exactly once, never within Start.
  void Start(HttpRequest request, Callback callback);
  // All at once; answers in the order of the requests. Waits for all, also when
  // one fails.
  std::vector<Result<HttpResponse>> SendAll(
      std::span<const HttpRequest> requests);

  const HttpOptions& options() const;
  HttpCounters counters() const;

 private:
  class Loop;
  const std::unique_ptr<Loop> loop_;
};

}  // namespace holdfast
