// WalkFiles (stores/storage/file_walk.h) for any place. Objects have no device,
// inode or links: their numbers are 0, 0 and 1, and `on_link` is never called
// for them.
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
