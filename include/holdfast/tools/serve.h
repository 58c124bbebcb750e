// Server: checkpoints over HTTP, to look at and to read from, by ranges.
//
//   holdfast::ServeOptions options;
//   options.paths = {"/ckpt"};
//   auto server = holdfast::Server::Start(options);
//   std::puts((*server)->url().c_str());   // http://127.0.0.1:8017/
//
//   /                      the page of the newest step
//   (holdfast/tools/report.h) /as/safetensors/…, /as/npz/…, /as/zarr/…,
//   /files/…
//                          its virtual files (holdfast/tools/virtual_files.h)
//   /at/NAME/STEP/…        the same of any step of any path that is served;
//                          `newest` for STEP
//   /metrics               the counts of this process, as OpenMetrics
//   /healthz               "ok"
// An address of a root that names no step (/as/…, /files/…, newest) leads to
// that of the step (307): the newest when it was first answered, until nobody
// has read it for a minute. A part of a checkpoint that has just been replaced
// is refused (412) unless the request says which it wants.
// GET and HEAD, ranges, ETag, If-Match, If-None-Match, If-Range. A directory is
// a page of links, or JSON to whoever accepts application/json. Nothing is ever
// written. Other machines are served only where `host` says so, and then only
// with a token, as `Authorization: Bearer TOKEN` or `?token=TOKEN`. On this
// machine requests whose Host is not its own are refused, so that no page of
// another site reads checkpoints through the user's browser.
//
// Thread-safety: any thread. Ownership: a Server stops when it goes.
// Units: bytes, seconds.
// Errors: of Start: InvalidArgument (no path, no address), AlreadyExists (the
// port is taken), PermissionDenied. A request's are its answer: 404 (no such
// file), 416 (a range outside it), 500 (damage, in words), 503 (too many
// clients; a store that cannot be reached).
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
  uint16_t port = 0;               // 0: any that is free
  // Empty: none is needed if only this machine can ask, else one is made
  // (Server::token).
  std::string token;
  OpenOptions open;
  RunOptions run;                                 // of one read
  uint64_t kept_bytes_max = uint64_t{256} << 20;  // of one checkpoint
  // And no more than half of the descriptors that the process may have.
  int client_count_max = 256;
  uint64_t header_bytes_max = 16 << 10;
  double header_seconds_max = 10;  // from the first byte to the last
  double idle_seconds_max = 30;    // between two requests
  // For each piece of 256 KiB of an answer.
  double write_seconds_max = 30;
  // Called with a line for each answer, from any thread; may be empty.
  std::function<void(const std::string& line)> log;
};

class Server {
 public:
  static Result<std::unique_ptr<Server>> Start(const ServeOptions& options);
  virtual ~Server() = default;
  virtual uint16_t port() const = 0;
  virtual const std::string& token() const = 0;  // empty: none is asked for
  // With the token, if there is one.
  virtual std::string url() const = 0;

 protected:
  Server() = default;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
};

}  // namespace HOLDFAST_EXPORT
