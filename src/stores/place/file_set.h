// FileSet: a read-only Store of a few files, each at its own path. It serves
// caches of model hubs, whose directories contain symbolic links to files
// elsewhere: a FileStore of the directory would refuse to follow them.
//
// Thread-safety, units, errors: as Store. Writing is Unimplemented.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "stores/place/place.h"
#include "stores/storage/store.h"

namespace holdfast {

// Makes a store whose keys are those of `places`; each key reads the file at
// its place. NotFound for a place that leads to no regular file.
Result<std::shared_ptr<Store>> MakeFileSet(
    const std::map<std::string, Place>& places);

}  // namespace holdfast
