// WalkFiles for any place; see stores/storage/file_walk.h. Objects have no
// device, inode or links: 0, 0 and 1.
//
// Thread-safety, ownership, units, errors: of stores/storage/file_walk.h and
// stores/cloud/bucket.h.
#pragma once

#include <functional>

#include "holdfast/status.h"
#include "stores/place/place.h"
#include "stores/storage/file_walk.h"

namespace holdfast {

using local::WalkedFile;

Status WalkFiles(const Place& directory,
                 const std::function<void(const WalkedFile&)>& fn);

}  // namespace holdfast
