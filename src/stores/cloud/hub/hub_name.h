// HubName: which repository of a model hub a URL names, and which revision.
//
//   hf://org/model[@revision]            a model
//   hf://datasets/org/name[@revision]    also spaces/
//
// A revision is a branch, a tag or a whole commit; slashes in it are written as
// %2F, but for refs/pr/N and refs/convert/NAME. Without one it is "main".
//
// Thread-safety: pure functions. Errors: InvalidArgument with what is wrong.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

struct HubName {
  std::string kind = "models";  // "models", "datasets", "spaces"
  std::string id;               // "org/model"
  std::string revision = "main";

  // "datasets/org/name", and for a model only its id: as in URLs of pages.
  std::string page() const;
  // "models--org--model".
  std::string cache_folder() const;
};

// `root` is a URL without the path of a file (UrlRoot,
// stores/storage/url_path.h).
Result<HubName> ParseHubRoot(std::string_view root);

// 40 hexadecimal digits in lower case.
bool IsHubCommit(std::string_view text);

}  // namespace holdfast
