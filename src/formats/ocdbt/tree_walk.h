// Descending a B+tree: point lookups and ordered walks, with the checks that
// concern a node and its parents together.
//
// Thread-safety: functions may run concurrently on one NodeSource.
// Ownership: value references keep alive what they point at.
// Units: bytes.
// Errors: those of NodeSource; DataLoss where a node contradicts its parent or
// its statistics.
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
  // Unless inline: the (valid) key of the data file in the base store, whose
  // first bytes are the base path, and the range in it.
  std::string_view file;
  size_t file_base_byte_count = 0;
  uint64_t offset = 0;
  uint64_t byte_count = 0;  // of the value, inline or not

  // REQUIRES: is_inline. Shares the memory.
  Bytes InlineBytes() const { return Bytes(owner, inline_value); }
};

// A tree or subtree and what its place in the parent says about it.
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
  // Drops what is below `inclusive_min`, or from `exclusive_max` (if not
  // empty) on.
  void Narrow(std::string_view inclusive_min, std::string_view exclusive_max);
};

struct WalkLimits {
  // Keys delivered by one walk. One node may be referenced many times, so a
  // small damaged file can describe a tree of any size.
  uint64_t keys_max = 0;
  const CancelToken* cancel = nullptr;
};

using KeyFn = std::function<Status(std::string_view key, const ValueRef&)>;

// Calls fn for each key of `range` in increasing byte order; the key is
// borrowed for the call. Compares statistics of every subtree that lies in the
// range as a whole.
Status WalkTree(NodeSource& source, const Subtree& root, const KeyRange& range,
                const WalkLimits& limits, const KeyFn& fn);

// A leaf node, and the range of keys that belong into it, present or not.
struct TreeLeaf {
  std::shared_ptr<const BtreeNode> node;
  std::string prefix;  // full prefix of node->relative_key(i)
  std::string inclusive_min;
  std::optional<std::string> exclusive_max;

  bool Covers(std::string_view key) const {
    return key >= inclusive_min && (!exclusive_max || key < *exclusive_max);
  }
};

// The leaf that covers `key`; null when no leaf does.
Result<std::shared_ptr<const TreeLeaf>> FindLeaf(NodeSource& source,
                                                 const Subtree& root,
                                                 std::string_view key);
// The value of `key`, or nullopt. REQUIRES: leaf.Covers(key).
Result<std::optional<ValueRef>> FindInLeaf(const TreeLeaf& leaf,
                                           std::string_view key);

}  // namespace holdfast::ocdbt
