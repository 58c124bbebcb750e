// Site: answers requests by their path.
//
// Checkpoints are opened on demand, and a few stay open. At most once a second,
// an open checkpoint is checked, and reopened if it was replaced.
// Thread-safety: any thread. Ownership: owns the open checkpoints. Errors:
// returned as responses.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/tools/serve.h"
#include "tools/serve/http_message.h"

namespace holdfast {

class Site {
 public:
  static Result<std::unique_ptr<Site>> Make(const ServeOptions& options);
  virtual ~Site() = default;
  virtual ServedResponse Answer(const ServedRequest& request) = 0;
};

// Decides whether a request may be answered.
struct Gate {
  std::string token;  // empty: none
  // The server's host names; empty allows any.
  std::vector<std::string> hosts;

  // Returns 401 or 403, or nullopt if the request is allowed.
  std::optional<ServedResponse> Refuse(const ServedRequest& request) const;
};

}  // namespace holdfast
