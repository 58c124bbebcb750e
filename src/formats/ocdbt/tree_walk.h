// Descends a B+tree: point lookups and ordered walks, with the checks that
// compare a node with its parents.
//
// Thread-safety: functions may run concurrently on one NodeSource.
// Ownership: value references keep alive what they point at.
// Units: bytes.
// Errors: those of NodeSource; DataLoss if a node contradicts its parent or its
// statistics.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "formats/ocdbt/format/btree_node.h"
#include "formats/ocdbt/node_source.h"
#include "ground/base/bytes.h"
#include "ground/base/cancel.h"
#include "holdfast/status.h"

namespace holdfast::ocdbt {

// The place of a value.
struct ValueRef {
  std::shared_ptr<const void> owner;  // keeps the views alive
  bool is_inline = true;
  std::string_view inline_value;
  // Unless inline: the (valid) key of the data file in the base store, which
  // starts with the base path, and the range in the file.
  std::string_view file;
  size_t file_base_byte_count = 0;
  uint64_t offset = 0;
  uint64_t byte_count = 0;  // of the value, inline or not

  // REQUIRES: is_inline. Shares the memory.
  Bytes InlineBytes() const { return Bytes(owner, inline_value); }
};

// A tree or subtree, and the facts about it that its parent implies.
struct Subtree {
  DataFile file;
  Reference node;
  uint8_t height = 0;
  Statistics statistics;
  std::string implied_prefix;
  std::string inclusive_min;  // full keys
  std::optional<std::string> exclusive_max;
};

struct KeyRange {
  std::string inclusive_min;
  std::optional<std::string> exclusive_max;

  static KeyRange WithPrefix(std::string_view prefix);
  // Drops keys below `inclusive_min` and, unless `exclusive_max` is empty, keys
  // at or above it.
  void Narrow(std::string_view inclusive_min, std::string_view exclusive_max);
};

struct WalkLimits {
  // The most keys that one walk delivers. One node may be referenced many
  // times, so a small damaged file can describe a tree of any size.
  uint64_t keys_max = 0;
  const CancelToken* cancel = nullptr;
};

using KeyFn = std::function<Status(std::string_view key, const ValueRef&)>;

// Calls fn for each key in `range`, in increasing byte order; the key is
// borrowed for the call. Checks the statistics of every subtree that is
// completely inside the range.
Status WalkTree(NodeSource& source, const Subtree& root, const KeyRange& range,
                const WalkLimits& limits, const KeyFn& fn);

// A leaf node, and the range of keys that belong in it, present or not.
struct TreeLeaf {
  std::shared_ptr<const BtreeNode> node;
  std::string prefix;  // full prefix of node->relative_key(i)
  std::string inclusive_min;
  std::optional<std::string> exclusive_max;

  bool Covers(std::string_view key) const {
    return key >= inclusive_min && (!exclusive_max || key < *exclusive_max);
  }
};

// Returns the leaf that covers `key`, or null if no leaf does.
Result<std::shared_ptr<const TreeLeaf>> FindLeaf(NodeSource& source,
                                                 const Subtree& root,
                                                 std::string_view key);
// Returns the value of `key`, or nullopt. REQUIRES: leaf.Covers(key).
Result<std::optional<ValueRef>> FindInLeaf(const TreeLeaf& leaf,
                                           std::string_view key);

}  // namespace holdfast::ocdbt
