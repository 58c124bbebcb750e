// Walks the files below a directory, with their sizes.
//
// Only regular files are visited. Symbolic links are reported to `on_link`, if
// given, and never followed. Entries that disappear during the walk are
// skipped.
// Thread-safety: any thread. Ownership: none. Units: bytes.
// Errors: errno_status.h, with the path; NotFound if the directory does not
// exist.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "holdfast/status.h"

namespace holdfast::local {

struct WalkedFile {
  std::string path;  // relative to the directory
  uint64_t byte_count = 0;
  // Device and inode identify the file under any of its names.
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t link_count = 1;
};

// Calls `fn` for each file, in no particular order, and `on_link` with the path
// of each link.
Status WalkFiles(const std::string& directory,
                 const std::function<void(const WalkedFile&)>& fn,
                 const std::function<void(const std::string&)>& on_link = {});

}  // namespace holdfast::local
