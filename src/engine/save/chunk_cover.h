// Checks that the keys which several processes wrote cover whole arrays.
//
// Thread-safety: pure functions. Ownership: borrows keys and layouts.
// Errors: FailedPrecondition naming the array, a chunk of it, and how many are
// missing or there twice.
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

// `keys` in any order; keys of no array given, and of metadata, are ignored.
// Costs a lookup a key, and a sort.
Status CheckChunkCover(std::span<const CoveredArray> arrays,
                       std::span<const std::string_view> keys);

}  // namespace holdfast
