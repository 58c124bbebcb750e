// Short cuts for the tests of this folder.
// Thread-safety: pure functions. Tests only.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "holdfast/sharding.h"

namespace holdfast {

// Over a mesh of these axes, its devices in order.
inline NamedSharding Named(std::vector<std::string> axes, Shape shape,
                           PartitionSpec spec) {
  return {{std::move(axes), std::move(shape), {}, {}}, std::move(spec)};
}

}  // namespace holdfast
