// WalkFiles for paths and URLs; see storage/file_walk.h. Objects have no
// device, inode or links: 0, 0 and 1.
//
// Thread-safety, ownership, units, errors: of storage/file_walk.h and
// cloud/bucket.h.
#pragma once

#include <functional>
#include <string>

#include "holdfast/status.h"
#include "storage/file_walk.h"

namespace holdfast {

using local::WalkedFile;

Status WalkFiles(const std::string& directory,
                 const std::function<void(const WalkedFile&)>& fn);

}  // namespace holdfast
