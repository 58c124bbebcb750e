// Shortcuts for the tests of this folder.
// Thread-safety: pure functions. Tests only.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "holdfast/sharding.h"

namespace holdfast {

// Returns a sharding over a mesh of these axes, with its devices in order.
inline NamedSharding Named(std::vector<std::string> axes, Shape shape,
                           PartitionSpec spec) {
  return {{std::move(axes), std::move(shape), {}, {}}, std::move(spec)};
}

}  // namespace holdfast
