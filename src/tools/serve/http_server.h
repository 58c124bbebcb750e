// HttpServer: answers GET and HEAD requests on one address by calling a
// function.
//
// One thread handles all connections (Boost.Beast); the function, and the
// reading of contents, run on a few other threads. A connection has at most one
// request in progress and one piece of its response in memory. It has timeouts
// for the complete header, for the next request, and for each piece. Request
// bodies are never read. If reading a content fails midway, the connection is
// closed, so that the client sees a short response rather than wrong bytes.
// Connections use at most half of the process's descriptors. At that limit, a
// new connection replaces the oldest connection that has not sent a request
// yet. If all have sent requests, the new connection is refused (503).
// Thread-safety: any thread; several threads call the function concurrently.
// Ownership: owns the function. The destructor returns when no call is in
// progress.
// Units: bytes, seconds.
// Errors (of Start): InvalidArgument (not an address), AlreadyExists (the port
// is taken), PermissionDenied.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ground/base/process_ptr.h"
#include "holdfast/status.h"
#include "tools/serve/http_message.h"

namespace holdfast {

struct HttpServerOptions {
  std::string host;
  uint16_t port = 0;
  int client_count_max = 256;
  uint64_t header_bytes_max = 16 << 10;
  double header_seconds_max = 10;
  double idle_seconds_max = 30;
  double write_seconds_max = 30;
  // Workers wait more than they compute.
  int worker_count = 16;
};

class HttpServer {
 public:
  using AnswerFn = std::function<ServedResponse(const ServedRequest&)>;
  static Result<ProcessPtr<HttpServer>> Start(
      const HttpServerOptions& options, AnswerFn answer);
  virtual ~HttpServer() = default;
  virtual uint16_t port() const = 0;
};

}  // namespace holdfast
