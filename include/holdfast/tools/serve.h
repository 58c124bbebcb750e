// Server: serves checkpoints over HTTP, to view them and to read ranges of
// bytes.
//
//   holdfast::ServeOptions options;
//   options.paths = {"/ckpt"};
//   auto server = holdfast::Server::Start(options);
//   std::puts((*server)->url().c_str());   // http://127.0.0.1:8017/
//
//   /                      the page of the newest step
//                          (holdfast/tools/report.h)
//   /as/safetensors/…, /as/npz/…, /as/zarr/…, /files/…
//                          its virtual files (holdfast/tools/virtual_files.h)
//   /at/NAME/STEP/…        the same for any step of any served path; STEP may
//                          be `newest`
//   /metrics               the counts of this process, as OpenMetrics
//   /healthz               "ok"
// For a root of steps, a URL without a step number (/as/…, /files/…, newest)
// redirects to a step's URL (307). That is the step that was newest at the
// first request, until no client has read it for a minute. A request for a
// checkpoint that has just been replaced is refused (412), unless it says which
// version it wants.
//
// The server supports GET and HEAD, ranges, ETag, If-Match, If-None-Match and
// If-Range. A directory is a page of links, or JSON for clients that accept
// application/json. The server never writes anything.
//
// Other machines are served only if `host` allows it, and then only with a
// token, as `Authorization: Bearer TOKEN` or `?token=TOKEN`. A request from
// this machine that names another Host is refused, so that another site's page
// cannot read checkpoints through the user's browser.
//
// Thread-safety: any thread. Ownership: destroying a Server stops it.
// Units: bytes, seconds.
// Errors: Start returns InvalidArgument (no path, not an address),
// AlreadyExists (the port is in use), PermissionDenied. Requests are answered
// with 404 (no such file), 416 (a range outside the file), 500 (damage,
// described in words), 503 (too many clients; an unreachable store).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

struct ServeOptions {
  std::vector<std::string> paths;  // checkpoints, or roots of steps
  std::string host = "127.0.0.1";  // an address of this machine
  uint16_t port = 0;               // 0: any free port
  // If empty, a token is generated when other machines can connect
  // (Server::token); when only this machine can, requests need no token.
  std::string token;
  OpenOptions open;
  RunOptions run;                                 // of each read
  uint64_t kept_bytes_max = uint64_t{256} << 20;  // for each checkpoint
  // The most clients at a time; also limited to half of the descriptors that
  // the process may have.
  int client_count_max = 256;
  uint64_t header_bytes_max = 16 << 10;
  double header_seconds_max = 10;  // from the first byte to the last
  double idle_seconds_max = 30;    // between two requests
  // For each 256 KiB of a response.
  double write_seconds_max = 30;
  // Called with a line for each response, from any thread; may be empty.
  std::function<void(const std::string& line)> log;
};

class Server {
 public:
  static Result<std::unique_ptr<Server>> Start(const ServeOptions& options);
  virtual ~Server() = default;
  virtual uint16_t port() const = 0;
  virtual const std::string& token() const = 0;  // empty: not required
  // Includes the token, if one is required.
  virtual std::string url() const = 0;

 protected:
  Server() = default;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
};

}  // namespace HOLDFAST_EXPORT
