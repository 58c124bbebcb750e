// Splits the sorted entries of one level of a B+tree into nodes, exactly as
// TensorStore does. The result is advisory: no reader depends on it.
//
// Thread-safety: pure functions. Units: bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "formats/ocdbt/format/btree_node.h"
#include "formats/ocdbt/format/limits.h"

namespace holdfast::ocdbt {

// Returns the estimated size of an entry in a decoded node, including its full
// key.
uint64_t LeafEntryCost(const LeafEntry& entry, const DataFileTable& files);
uint64_t ChildEntryCost(const ChildEntry& entry, const DataFileTable& files);

struct SplitRule {
  uint64_t node_bytes_max = 0;  // max_decoded_node_bytes; 0: no limit
  size_t node_entries_min = 1;  // 1 for leaves, 2 for interior nodes
};

// Returns the ends of the nodes: node i has entries [ends[i-1], ends[i]). A run
// of m entries costs the sum of its costs minus (m-1) * shared_prefix_bytes,
// the length of the common prefix of the first and last key of the level.
// REQUIRES: at least one cost.
std::vector<size_t> SplitNodes(std::span<const uint64_t> costs,
                               uint64_t shared_prefix_bytes,
                               const SplitRule& rule);

}  // namespace holdfast::ocdbt
