// HttpClient sends requests over HTTP/1.1 with kept-alive connections. No other
// part of the program handles retries.
//
// One thread of the client drives all transfers (libcurl's multi interface);
// callers wait, or are called back.
//
// A request is sent again, as long as attempts and time are left, when the
// answer is 408, 429, 500, 502, 503 or 504, or when the connection is lost
// before the answer is complete. The client first waits for an exponential
// backoff with jitter, and for a Retry-After. A server that has never begun an
// answer to this client is given up after four attempts, or after two if
// connecting took three seconds. The number of requests in flight is bounded.
// The bound adapts: it grows while answers arrive, and is halved when a server
// asks to slow down.
//
// GET and HEAD requests without `prepare` follow up to five redirects, but
// never from https to http. A different server receives only the headers that
// describe the wanted content. Any other redirect is returned as an answer.
//
// TLS certificates are always checked. Proxies are taken from the environment,
// as libcurl reads it (https_proxy, no_proxy, ...). Messages name the URL
// without user, password and query; headers never appear in messages or logs.
//
// Thread-safety: any thread. Callbacks run on the client's thread; they must be
// short, and must neither call Send nor destroy the client. After fork() the
// child's first request starts the child's own thread and connections; requests
// in flight in the parent continue there, and their callbacks never run in the
// child.
// Ownership: a request borrows its body, target and cancel token until its
// answer is given. Units: bytes, milliseconds. Errors of Send and in callbacks,
// when there is no answer: Unavailable (no connection, lost connections, all
// attempts used up), DeadlineExceeded, Cancelled, InvalidArgument (bad URL),
// FailedPrecondition (certificate not trusted; no libcurl on this machine),
// DataLoss (an answer longer than its target), ResourceExhausted (no memory, or
// no thread can be started; the callback then runs on the caller's thread). Any
// HTTP status that remains after the retries is an answer, not an error.
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

// Returns the value of the first header with that name, ignoring case; nullopt
// if no header has the name.
std::optional<std::string_view> FindHeader(const HttpHeaders& headers,
                                           std::string_view name);

struct HttpRequest {
  std::string method = "GET";
  std::string url;  // escaped, http:// or https://
  HttpHeaders headers;
  std::vector<std::string_view> body;  // borrowed

  // Called with a copy of the request before every attempt, on the client's
  // thread, for example to sign it again. Must not wait for the network. A
  // failure ends the request.
  std::function<Status(HttpRequest& attempt)> prepare;

  // The body of an answer with status `target_status` is written here, from the
  // first byte; a longer body is DataLoss. Other bodies, and all bodies if the
  // target is empty, go to HttpResponse::body. They are cut off at
  // `body_bytes_max`, except that a longer body of a successful answer (2xx, no
  // target) is DataLoss.
  std::span<char> target;
  int target_status = 206;
  uint64_t body_bytes_max = 64 << 20;

  // False if a request that reaches the server twice would do harm that the
  // caller cannot detect. The request is then sent again only if it certainly
  // had no effect (no connection; 429).
  bool may_repeat = true;
  // Whether to send a second copy (a hedge) when the answer takes much longer
  // than for recent requests of this size; the first complete answer wins.
  // Copies are sent only for GET, if HttpOptions::hedge is set, and as long as
  // no more than about 2 % of the bytes of all such requests come twice.
  bool may_hedge = false;
  // The time for all attempts together, counted from the first; if absent, the
  // client's options apply.
  std::optional<std::chrono::milliseconds> deadline;
  const CancelToken* cancel = nullptr;  // borrowed; checked often
};

struct HttpResponse {
  int status = 0;
  HttpHeaders headers;
  Bytes body;
  uint64_t target_bytes = 0;  // bytes of the target that are filled
  int attempt_count = 1;      // redirects are not counted
};

struct HttpOptions {
  int in_flight_max = 64;
  int attempt_count_max = 12;  // lasts through a minute of throttling
  std::chrono::milliseconds connect_deadline{10'000};
  // If no byte moves for this long, the connection counts as lost.
  std::chrono::milliseconds stall_deadline{30'000};
  std::chrono::milliseconds request_deadline{300'000};
  std::chrono::milliseconds backoff_first{100};
  std::chrono::milliseconds backoff_max{20'000};
  bool hedge = true;
  // A file of trusted certificates; if empty, taken from HOLDFAST_CA_BUNDLE,
  // AWS_CA_BUNDLE, SSL_CERT_FILE, CURL_CA_BUNDLE or the system's usual places.
  std::string ca_bundle;
  std::string user_agent;    // "": "holdfast/<version>"
  uint64_t jitter_seed = 0;  // 0: random
  // Receives messages about throttling and retries on the client's thread, at
  // most one line every ten seconds. If empty, messages go to standard error if
  // HOLDFAST_LOG is "stderr", and nowhere otherwise.
  std::function<void(std::string_view line)> log;
};

using HttpCounters = RemoteCounters;

// Returns the totals of all clients that this process has had.
HttpCounters TotalHttpCounters();

class HttpClient {
 public:
  using Callback = std::function<void(Result<HttpResponse>)>;

  // Does no I/O, starts no thread and loads no libcurl before the first
  // request.
  explicit HttpClient(HttpOptions options = {});
  // Cancels all requests in flight, and returns when their callbacks have run.
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  Result<HttpResponse> Send(const HttpRequest& request);
  // Sends the request. The callback runs exactly once, but not within Start
  // unless the client's thread cannot be started.
  void Start(HttpRequest request, Callback callback);
  // Sends all requests concurrently, and waits for all of them even if one
  // fails. The answers are in the order of the requests.
  std::vector<Result<HttpResponse>> SendAll(
      std::span<const HttpRequest> requests);

  const HttpOptions& options() const;
  HttpCounters counters() const;

 private:
  class Loop;
  const std::unique_ptr<Loop> loop_;
};

}  // namespace holdfast
