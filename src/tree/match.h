// Compares the structure a caller wants with the structure that is stored.
//
// Only structure counts: which leaves there are, and whether each holds a
// value or is an empty container of the same type. An array against a scalar
// is no difference here.
// Thread-safety: pure functions.
// Ownership: a MatchItem borrows; MatchResult holds indices and texts.
// Errors: none.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tree/flatten.h"
#include "tree/key_path.h"

namespace holdfast {

struct MatchItem {
  const KeyPath* path = nullptr;
  std::string_view value_type;
};

std::vector<MatchItem> MatchItems(const std::vector<FlatLeaf>& leaves);

struct KindDifference {
  size_t wanted = 0;  // index of the wanted item
  size_t stored = 0;
  std::string what;  // "want a sequence, got a dict", "want leaf, got Dict"
};

struct MatchResult {
  // Indices (wanted, stored) of the leaves present in both, same kind or not,
  // in the order wanted.
  std::vector<std::pair<size_t, size_t>> pairs;
  std::vector<size_t> missing;     // wanted, not stored
  std::vector<size_t> unexpected;  // stored, not wanted
  std::vector<KindDifference> different;

  bool same() const {
    return missing.empty() && unexpected.empty() && different.empty();
  }
};

// Items match by their keys. REQUIRES: no two wanted, and no two stored items
// with the same keys.
MatchResult MatchStructure(const std::vector<MatchItem>& wanted,
                           const std::vector<MatchItem>& stored);

// One line a difference, sorted as the items were, at most `lines_max` of each
// list: "missing in checkpoint: ('a', 'b')". Empty when there is none.
std::string DescribeMatch(const MatchResult& result,
                          const std::vector<MatchItem>& wanted,
                          const std::vector<MatchItem>& stored,
                          size_t lines_max = 10);

}  // namespace holdfast
