// HttpServer: answers GET and HEAD on one address, by a function.
//
// One thread has all connections (Boost.Beast); the function, and the reading
// of contents, run on a few others. A connection has at most one request under
// way, one piece of its answer in memory, and a time for everything: for the
// header as a whole, for the next request, for each piece. Bodies of requests
// are never read. A content that fails in the middle ends the connection, so
// that its reader misses bytes instead of getting wrong ones. Connections take
// at most half of the process's descriptors. Once they are as many as may be,
// one more takes the place of the oldest that has not asked for anything yet,
// or is turned away (503).
// Thread-safety: any thread; the function is called from several at once.
// Ownership: keeps the function until it goes; then no call is under way.
// Units: bytes, seconds.
// Errors: of Start: InvalidArgument (no address), AlreadyExists (the port is
// taken), PermissionDenied.
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
  // They wait more than they compute.
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
