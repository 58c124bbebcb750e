// Turns lists that have lost some of their items, or that have names as keys,
// into dicts with the same keys.
//
// Thread-safety: pure. Errors: none.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ground/tree/key_path.h"

namespace holdfast {

// The path of one leaf; its kinds may be changed. Both members are borrowed.
// REQUIRES: as many kinds as keys.
struct LeafKeys {
  const std::vector<std::string>* keys = nullptr;
  std::vector<KeyKind>* kinds = nullptr;
};

// Turns indices into names in every list whose indices are not 0, 1, ...
// without a gap. Returns the paths of these lists, sorted.
std::vector<std::vector<std::string>> ReplaceBrokenLists(
    std::span<const LeafKeys> leaves);

}  // namespace holdfast
