// WalkFiles for any place; see stores/storage/file_walk.h. Objects have no
// device, inode or links, so these are 0, 0 and 1; `on_link` is never called
// for objects.
//
// Thread-safety, ownership, units, errors: as in stores/storage/file_walk.h and
// stores/cloud/bucket.h.
#pragma once

#include <functional>

#include "holdfast/status.h"
#include "stores/place/place.h"
#include "stores/storage/file_walk.h"

namespace holdfast {

using local::WalkedFile;

Status WalkFiles(const Place& directory,
                 const std::function<void(const WalkedFile&)>& fn,
                 const std::function<void(const std::string&)>& on_link = {});

}  // namespace holdfast
