// Site: what is served, by the path of a request.
//
// Checkpoints are opened when somebody asks for them, a few are kept, and each
// is looked at again after a second: what was replaced is opened anew.
// Thread-safety: any thread. Ownership: its checkpoints. Errors: answers.
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

// Whether a request may be answered at all: ok, or the answer.
struct Gate {
  std::string token;  // empty: none
  // Hosts that the server has; empty: any.
  std::vector<std::string> hosts;

  // 401 or 403; nullopt: come in.
  std::optional<ServedResponse> Refuse(const ServedRequest& request) const;
};

}  // namespace holdfast
