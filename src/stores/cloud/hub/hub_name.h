// HubName: the repository on a model hub that a URL names, and its revision.
//
//   hf://org/model[@revision]            a model
//   hf://datasets/org/name[@revision]    also spaces/
//
// A revision is a branch, a tag or a full commit hash; slashes in it are
// written as %2F, except in refs/pr/N and refs/convert/NAME. The default is
// "main".
//
// Thread-safety: pure functions. Errors: InvalidArgument saying what is wrong.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

struct HubName {
  std::string kind = "models";  // "models", "datasets", "spaces"
  std::string id;               // "org/model"
  std::string revision = "main";

  // Returns "datasets/org/name", or just the id for a model, as in the URLs of
  // the hub's pages.
  std::string page() const;
  // Returns "models--org--model".
  std::string cache_folder() const;
};

// Parses `root`, which is a URL without a file's path (UrlRoot,
// stores/storage/url_path.h).
Result<HubName> ParseHubRoot(std::string_view root);

// Returns true for 40 hexadecimal digits in lower case.
bool IsHubCommit(std::string_view text);

}  // namespace holdfast
