// Parses a repository's listing from the hub's API: its files at a commit, page
// by page.
//
// Nothing from the server is trusted: paths, sizes and pages are checked and
// counted.
// Thread-safety: pure functions. Units: bytes.
// Errors: DataLoss (a malformed answer).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

struct HubFile {
  uint64_t byte_count = 0;
  std::string version;  // the hash of its content
};
using HubFiles = std::map<std::string, HubFile, std::less<>>;  // by path

inline constexpr size_t kHubFileCountMax = 1'000'000;

// Adds the files of one page of api/…/tree/<commit>?recursive=true.
Status AddTreePage(std::string_view text, HubFiles& files);

// Returns "sha" in the answer to api/…/revision/<revision>.
Result<std::string> CommitOfRevision(std::string_view text);

// Returns the target of rel="next" in a Link header (RFC 8288), or "".
std::string NextOfLink(std::string_view link);

}  // namespace holdfast
