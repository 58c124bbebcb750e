// Checks that the keys that several processes wrote cover complete arrays.
//
// Thread-safety: pure functions. Ownership: borrows keys and layouts.
// Errors: FailedPrecondition naming the array, one of its chunks, and how many
// chunks are missing or duplicated.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/restore/array_layout.h"

namespace holdfast {

struct CoveredArray {
  std::string prefix;  // of its keys: "a.b/", or "" for a bare array
  std::shared_ptr<const ArrayLayout> layout;
};

// Checks that `keys` name every chunk of `arrays` once. They may be in any
// order; keys of metadata, and of arrays that are not in `arrays`, are ignored.
// Costs one lookup per key, and a sort.
Status CheckChunkCover(std::span<const CoveredArray> arrays,
                       std::span<const std::string_view> keys);

}  // namespace holdfast
