// The Store of a directory given by its path or URL, for callers without a
// Place.
//
// Thread-safety: any thread. Ownership, errors: as Place::OpenStore.
#pragma once

#include <memory>

#include "stores/place/place.h"
#include "stores/storage/store.h"

namespace holdfast {

inline std::shared_ptr<Store> StoreAt(const Place& directory) {
  return directory.OpenStore();
}

}  // namespace holdfast
