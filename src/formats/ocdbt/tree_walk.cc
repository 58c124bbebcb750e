#include "formats/ocdbt/tree_walk.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "formats/ocdbt/format/limits.h"
#include "ground/base/status_macros.h"

namespace holdfast::ocdbt {
namespace {

// The most nodes to request concurrently, with one request for each.
constexpr size_t kAheadNodeCount = 256;

using NodePtr = std::shared_ptr<const BtreeNode>;

// A node on the path from the root, with the entries that are still to be
// visited.
struct Frame {
  Subtree subtree;
  NodePtr node;
  std::string prefix;  // full prefix of node->relative_key(i)
  size_t next = 0;
  size_t end = 0;
  size_t fetched = 0;  // children before this were requested ahead
  bool whole = true;   // no entry is skipped
  Statistics sum;
};

std::string FullKey(const Frame& frame, size_t i) {
  std::string key = frame.prefix;
  key += frame.node->relative_key(i);
  return key;
}

// Returns the first entry whose full key is >= bound (or > bound, if
// `after_equal`), in a node with this full prefix.
size_t Bound(const BtreeNode& node, std::string_view prefix,
             std::string_view bound, bool after_equal) {
  const size_t count = node.entry_count();
  const std::string_view head = bound.substr(0, prefix.size());
  if (head < prefix) return 0;
  if (head > prefix) return count;
  const std::string_view rest = bound.substr(prefix.size());
  size_t low = 0;
  size_t high = count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const int order = node.relative_key(middle).compare(rest);
    if (order < 0 || (order == 0 && after_equal)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

size_t Bound(const Frame& frame, std::string_view bound, bool after_equal) {
  return Bound(*frame.node, frame.prefix, bound, after_equal);
}

Status CheckKeyLengths(const Frame& frame) {
  const size_t full =
      frame.subtree.implied_prefix.size() + frame.node->key_bytes_max;
  if (full <= kKeyBytesMax) return Status();
  return DataLossError("Full key length " + std::to_string(full) +
                       " exceeds limit of 65535");
}

Status CheckAgainstParent(const Frame& frame) {
  const Subtree& subtree = frame.subtree;
  if (frame.node->height != subtree.height) {
    return DataLossError(
        "Expected height of " + std::to_string(subtree.height) +
        " but received: " + std::to_string(frame.node->height));
  }
  HF_RETURN_IF_ERROR(CheckKeyLengths(frame));
  // The parent says which keys the node may hold. A node of another tree must
  // not be accepted, even if the node is valid.
  const std::string first = FullKey(frame, 0);
  if (first < subtree.inclusive_min) {
    return DataLossError("First key \"" + first +
                         "\" is less than inclusive_min \"" +
                         subtree.inclusive_min + "\" specified by parent node");
  }
  if (!subtree.exclusive_max.has_value()) return Status();
  const std::string last = FullKey(frame, frame.node->entry_count() - 1);
  if (last < *subtree.exclusive_max) return Status();
  return DataLossError("Last key \"" + last +
                       "\" is not less than exclusive_max \"" +
                       *subtree.exclusive_max + "\" specified by parent node");
}

std::string NodeText(const NodeSource& source, const Subtree& subtree) {
  return RangeText(*source.store(), subtree.file.path, subtree.node.offset,
                   subtree.node.byte_count);
}

Result<Frame> LoadFrame(NodeSource& source, Subtree subtree) {
  Frame frame;
  HF_ASSIGN_OR_RETURN(frame.node,
                      source.ReadBtreeNode(subtree.file, subtree.node));
  frame.prefix = subtree.implied_prefix;
  frame.prefix += frame.node->key_prefix;
  frame.end = frame.node->entry_count();
  frame.sum.tree_byte_count = subtree.node.byte_count;
  frame.subtree = std::move(subtree);
  const Status status = CheckAgainstParent(frame);
  if (status.ok()) return frame;
  return status.WithContext("Error reading " + NodeText(source, frame.subtree));
}

Subtree ChildOf(const Frame& frame, size_t i) {
  const ChildEntry& entry = frame.node->children[i];
  Subtree child;
  child.file = frame.node->files[entry.node.file_index];
  child.node = entry.node;
  child.height = static_cast<uint8_t>(frame.node->height - 1);
  child.statistics = entry.statistics;
  child.inclusive_min = FullKey(frame, i);
  child.implied_prefix = child.inclusive_min.substr(
      0, frame.subtree.implied_prefix.size() + entry.subtree_prefix_byte_count);
  child.exclusive_max = i + 1 < frame.node->entry_count()
                            ? FullKey(frame, i + 1)
                            : frame.subtree.exclusive_max;
  return child;
}

// Skips the entries that are outside the range.
void Clip(Frame& frame, const KeyRange& range) {
  const size_t count = frame.node->entry_count();
  if (frame.node->height == 0) {
    frame.next = Bound(frame, range.inclusive_min, /*after_equal=*/false);
  } else {
    // A child begins at its key and ends before the next child's key, so the
    // last child that begins at or before the bound may hold it.
    const size_t after = Bound(frame, range.inclusive_min, true);
    frame.next = after == 0 ? 0 : after - 1;
  }
  if (range.exclusive_max.has_value()) {
    frame.end = std::max(frame.next, Bound(frame, *range.exclusive_max, false));
  }
  frame.whole = frame.next == 0 && frame.end == count;
}

// The values of one leaf. If consecutive values have the same path, the path is
// checked only once.
class LeafValues {
 public:
  explicit LeafValues(const NodePtr& node) : node_(*node) {
    value_.owner = node;
  }

  Result<const ValueRef*> Get(size_t i) {
    const LeafEntry& entry = node_.leaves[i];
    value_.byte_count = entry.value_byte_count;
    // TensorStore also reads ranges of length 0, and fails on an empty path.
    // Here there is nothing to read.
    value_.is_inline = entry.is_inline() || entry.value_byte_count == 0;
    if (value_.is_inline) {
      value_.inline_value =
          entry.is_inline() ? entry.inline_value() : std::string_view();
      return &value_;
    }
    value_.inline_value = {};
    value_.offset = entry.offset;
    if (entry.file_index != file_index_) {
      const DataFile& file = node_.files[entry.file_index];
      HF_RETURN_IF_ERROR(CheckDataFilePath(file.path));
      value_.file = file.path;
      value_.file_base_byte_count = file.base_byte_count;
      file_index_ = entry.file_index;
    }
    return &value_;
  }

 private:
  const BtreeNode& node_;
  ValueRef value_;
  uint32_t file_index_ = LeafEntry::kInline;
};

class Walk {
 public:
  Walk(NodeSource& source, const Subtree& root, const KeyRange& range,
       const WalkLimits& limits, const KeyFn& fn)
      : source_(source),
        range_(range),
        limits_(limits),
        fn_(fn),
        keys_max_(std::min(limits.keys_max, root.statistics.key_count)) {}

  Status Run(const Subtree& root) {
    HF_RETURN_IF_ERROR(Push(root));
    while (!stack_.empty()) {
      Frame& top = stack_.back();
      if (top.node->height == 0) HF_RETURN_IF_ERROR(VisitLeaf(top));
      if (top.next < top.end) FetchAhead(top);
      HF_RETURN_IF_ERROR(top.next < top.end ? Push(ChildOf(top, top.next++))
                                            : Pop());
    }
    return Status();
  }

 private:
  Status Push(Subtree subtree) {
    if (limits_.cancel != nullptr) HF_RETURN_IF_ERROR(limits_.cancel->Check());
    HF_ASSIGN_OR_RETURN(Frame frame, LoadFrame(source_, std::move(subtree)));
    Clip(frame, range_);
    stack_.push_back(std::move(frame));
    return Status();
  }

  void FetchAhead(Frame& frame) {
    // Does this once per round: children before `fetched` were already
    // requested.
    if (frame.next < frame.fetched || !source_.fetches_ahead()) return;
    std::vector<NodeSource::NodePlace> places;
    for (size_t i = frame.next;
         i < frame.end && places.size() < kAheadNodeCount; ++i) {
      const ChildEntry& child = frame.node->children[i];
      places.push_back({frame.node->files[child.node.file_index], child.node});
    }
    frame.fetched = frame.next + places.size();
    source_.FetchAhead(places);
  }

  Status VisitLeaf(Frame& frame) {
    // A hostile tree may refer to one node from many places, so the key count
    // that its root states bounds the walk.
    key_count_ += frame.end - frame.next;
    if (key_count_ > keys_max_) {
      return DataLossError(
          "B-tree has more keys than num_keys=" + std::to_string(keys_max_) +
          " specified by its root, seen in " +
          NodeText(source_, frame.subtree));
    }
    LeafValues values(frame.node);
    std::string key = frame.prefix;
    for (; frame.next < frame.end; ++frame.next) {
      const LeafEntry& entry = frame.node->leaves[frame.next];
      frame.sum.Add({1, 0, entry.is_inline() ? 0 : entry.value_byte_count});
      key.resize(frame.prefix.size());
      key += entry.key;
      HF_ASSIGN_OR_RETURN(const ValueRef* value, values.Get(frame.next));
      HF_RETURN_IF_ERROR(fn_(key, *value));
    }
    return Status();
  }

  Status Pop() {
    const Frame done = std::move(stack_.back());
    stack_.pop_back();
    // Only a subtree that was walked completely can be compared with its
    // statistics.
    if (done.whole && done.sum != done.subtree.statistics) {
      return DataLossError(
          "B-tree statistics " + StatisticsText(done.subtree.statistics) +
          " do not match the actual " + StatisticsText(done.sum) + " of " +
          NodeText(source_, done.subtree));
    }
    if (stack_.empty()) return Status();
    stack_.back().whole = stack_.back().whole && done.whole;
    stack_.back().sum.Add(done.sum);
    return Status();
  }

  NodeSource& source_;
  const KeyRange& range_;
  const WalkLimits& limits_;
  const KeyFn& fn_;
  const uint64_t keys_max_;
  std::vector<Frame> stack_;  // heights decrease by one: at most 256
  uint64_t key_count_ = 0;
};

}  // namespace

KeyRange KeyRange::WithPrefix(std::string_view prefix) {
  KeyRange range;
  range.inclusive_min = prefix;
  std::string end(prefix);
  // "ab\xff" ends before "ac": trailing bytes 0xff have no successor.
  while (!end.empty() && static_cast<uint8_t>(end.back()) == 0xff) {
    end.pop_back();
  }
  if (end.empty()) return range;
  end.back() = static_cast<char>(static_cast<uint8_t>(end.back()) + 1);
  range.exclusive_max = std::move(end);
  return range;
}

void KeyRange::Narrow(std::string_view min, std::string_view max) {
  if (inclusive_min < min) inclusive_min = min;
  if (max.empty()) return;
  if (!exclusive_max.has_value() || max < *exclusive_max) exclusive_max = max;
}

Status WalkTree(NodeSource& source, const Subtree& root, const KeyRange& range,
                const WalkLimits& limits, const KeyFn& fn) {
  return Walk(source, root, range, limits, fn).Run(root);
}

Result<std::shared_ptr<const TreeLeaf>> FindLeaf(NodeSource& source,
                                                 const Subtree& root,
                                                 std::string_view key) {
  HF_ASSIGN_OR_RETURN(Frame frame, LoadFrame(source, root));
  // This terminates: LoadFrame refuses a child that is not exactly one lower.
  while (frame.node->height > 0) {
    const size_t after = Bound(frame, key, /*after_equal=*/true);
    if (after == 0) return std::shared_ptr<const TreeLeaf>();
    HF_ASSIGN_OR_RETURN(frame, LoadFrame(source, ChildOf(frame, after - 1)));
  }
  return std::make_shared<const TreeLeaf>(
      TreeLeaf{std::move(frame.node), std::move(frame.prefix),
               std::move(frame.subtree.inclusive_min),
               std::move(frame.subtree.exclusive_max)});
}

Result<std::optional<ValueRef>> FindInLeaf(const TreeLeaf& leaf,
                                           std::string_view key) {
  const size_t i = Bound(*leaf.node, leaf.prefix, key, /*after_equal=*/false);
  if (i == leaf.node->entry_count() || !key.starts_with(leaf.prefix) ||
      leaf.node->relative_key(i) != key.substr(leaf.prefix.size())) {
    return std::optional<ValueRef>();
  }
  LeafValues values(leaf.node);
  HF_ASSIGN_OR_RETURN(const ValueRef* value, values.Get(i));
  return std::optional<ValueRef>(*value);
}

}  // namespace holdfast::ocdbt
