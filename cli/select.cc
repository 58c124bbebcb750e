#include "cli/select.h"

#include "holdfast/tools/glob.h"

namespace holdfast::cli {

Result<std::vector<size_t>> SelectLeaves(
    const std::vector<LeafInfo>& leaves,
    std::span<const std::string> patterns) {
  std::vector<bool> wanted(leaves.size(), patterns.empty());
  for (const std::string& pattern : patterns) {
    bool found = false;
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (!GlobSelects(pattern, leaves[i].name)) continue;
      wanted[i] = true;
      found = true;
    }
    if (!found) return NotFoundError("no leaf matches '" + pattern + "'");
  }
  std::vector<size_t> selected;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (wanted[i]) selected.push_back(i);
  }
  return selected;
}

}  // namespace holdfast::cli
