#include "formats/ocdbt/format/node_split.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "formats/ocdbt/format/limits.h"

namespace holdfast::ocdbt {
namespace {

constexpr uint64_t kLeafEntryFixedCost = 16;
constexpr uint64_t kIndirectValueFixedCost = 16;
constexpr uint64_t kChildEntryFixedCost = 56;

uint64_t CeilOfRatio(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

}  // namespace

uint64_t LeafEntryCost(const LeafEntry& entry, const DataFileTable& files) {
  const uint64_t value =
      entry.is_inline()
          ? entry.value_byte_count
          : kIndirectValueFixedCost + files[entry.file_index].path.size();
  return kLeafEntryFixedCost + entry.key.size() + value;
}

uint64_t ChildEntryCost(const ChildEntry& entry, const DataFileTable& files) {
  return kChildEntryFixedCost + entry.key.size() +
         files[entry.node.file_index].path.size();
}

std::vector<size_t> SplitNodes(std::span<const uint64_t> costs,
                               uint64_t shared_prefix_bytes,
                               const SplitRule& rule) {
  assert(!costs.empty());
  const size_t count = costs.size();
  std::vector<size_t> ends;
  uint64_t left_cost = std::accumulate(costs.begin(), costs.end(), uint64_t{0});
  for (size_t start = 0; start < count;) {
    const uint64_t left_bytes =
        left_cost - (count - start - 1) * shared_prefix_bytes;
    uint64_t parts = CeilOfRatio(count - start, kNodeEntriesMax);
    if (rule.node_bytes_max != 0) {
      parts = std::max(parts, CeilOfRatio(left_bytes, rule.node_bytes_max));
    }
    const uint64_t target_bytes = CeilOfRatio(left_bytes, parts);

    size_t end = start + 1;
    uint64_t run_bytes = costs[start];
    while (end < count && end - start < kNodeEntriesMax) {
      if (run_bytes >= target_bytes && end - start >= rule.node_entries_min) {
        const bool too_large =
            rule.node_bytes_max != 0 && run_bytes > rule.node_bytes_max;
        if (too_large && end - start > rule.node_entries_min) --end;
        break;
      }
      run_bytes += costs[end++] - shared_prefix_bytes;
    }
    left_cost -= std::accumulate(costs.begin() + start, costs.begin() + end,
                                 uint64_t{0});
    ends.push_back(end);
    start = end;
  }
  return ends;
}

}  // namespace holdfast::ocdbt
