// Lists of a tree that have lost some of their items, or hold names: they
// become dicts of the same keys.
//
// Thread-safety: pure. Errors: none.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ground/tree/key_path.h"

namespace holdfast {

// The path of one leaf, whose kinds may be changed. REQUIRES: as many kinds as
// keys. Both are borrowed.
struct LeafKeys {
  const std::vector<std::string>* keys = nullptr;
  std::vector<KeyKind>* kinds = nullptr;
};

// Makes names of the indices in every list that is not 0, 1, ... without a gap.
// Returns the paths of these lists, sorted.
std::vector<std::vector<std::string>> ReplaceBrokenLists(
    std::span<const LeafKeys> leaves);

}  // namespace holdfast
