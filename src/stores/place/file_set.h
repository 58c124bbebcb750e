// FileSet: a read-only Store of a few files, each at its own path: model hubs
// keep directories of symbolic links to files elsewhere, which a FileStore of
// the directory would refuse to follow.
//
// Thread-safety, units, errors: as Store. Writing is Unimplemented.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "stores/place/place.h"
#include "stores/storage/store.h"

namespace holdfast {

// The keys of the store are the keys of `places`; each reads the file at its
// place. NotFound for a place that leads to no regular file.
Result<std::shared_ptr<Store>> MakeFileSet(
    const std::map<std::string, Place>& places);

}  // namespace holdfast
