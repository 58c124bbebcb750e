#include "formats/ocdbt/tree_builder.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "formats/ocdbt/format/node_split.h"
#include "ground/base/crc32c.h"
#include "ground/base/status_macros.h"

namespace holdfast::ocdbt {
namespace {

uint64_t Cost(const LeafEntry& entry, const DataFileTable& files) {
  return LeafEntryCost(entry, files);
}
uint64_t Cost(const ChildEntry& entry, const DataFileTable& files) {
  return ChildEntryCost(entry, files);
}

Statistics StatisticsOf(const LeafEntry& entry) {
  return {1, 0, entry.is_inline() ? 0 : entry.value_byte_count};
}
Statistics StatisticsOf(const ChildEntry& entry) { return entry.statistics; }

// Returns the most bytes that may be cut from a key. Keys are complete here. A
// child's key is limited by its subtree prefix.
size_t CutMax(const LeafEntry& entry) { return entry.key.size(); }
size_t CutMax(const ChildEntry& entry) {
  return entry.subtree_prefix_byte_count;
}

void CutSubtreePrefix(LeafEntry&, size_t) {}
void CutSubtreePrefix(ChildEntry& entry, size_t byte_count) {
  entry.subtree_prefix_byte_count =
      static_cast<uint16_t>(entry.subtree_prefix_byte_count - byte_count);
}

Bytes EncodeBody(uint8_t, std::span<const LeafEntry> entries,
                 const DataFileTable& files) {
  return EncodeLeafNodeBody("", entries, files);
}
Bytes EncodeBody(uint8_t height, std::span<const ChildEntry> entries,
                 const DataFileTable& files) {
  return EncodeInteriorNodeBody(height, "", entries, files);
}

template <typename Entry>
size_t ImpliedPrefixBytes(std::span<const Entry> run) {
  size_t cut = CommonPrefixBytes(run.front().key, run.back().key);
  for (const Entry& entry : run) cut = std::min(cut, CutMax(entry));
  return cut;
}

class NodeBuilder {
 public:
  NodeBuilder(const DataFileTable& files, const TreeOptions& options,
              const NodeSink& sink)
      : files_(files), options_(options), sink_(sink) {}

  // Writes the nodes of one level and returns the entries that refer to them.
  template <typename Entry>
  Result<std::vector<ChildEntry>> WriteLevel(std::span<const Entry> entries,
                                             uint8_t height) {
    const std::vector<size_t> ends = Split(entries, height);
    std::vector<ChildEntry> parents;
    size_t start = 0;
    for (const size_t end : ends) {
      const std::span<const Entry> run = entries.subspan(start, end - start);
      // The root has no parent that could imply a prefix.
      const size_t cut = ends.size() == 1 ? 0 : ImpliedPrefixBytes(run);
      HF_ASSIGN_OR_RETURN(ChildEntry parent, WriteNode(run, height, cut));
      parents.push_back(parent);
      start = end;
    }
    return parents;
  }

  std::vector<WrittenNode> TakeNodes() { return std::move(nodes_); }

 private:
  template <typename Entry>
  std::vector<size_t> Split(std::span<const Entry> entries, uint8_t height) {
    std::vector<uint64_t> costs(entries.size());
    for (size_t i = 0; i < costs.size(); ++i) {
      costs[i] = Cost(entries[i], files_);
    }
    const size_t shared =
        CommonPrefixBytes(entries.front().key, entries.back().key);
    return SplitNodes(costs, shared,
                      {.node_bytes_max = options_.node_bytes_max,
                       .node_entries_min = height == 0 ? 1u : 2u});
  }

  template <typename Entry>
  Result<ChildEntry> WriteNode(std::span<const Entry> run, uint8_t height,
                               size_t cut) {
    std::vector<Entry> relative;
    std::span<const Entry> stored = run;
    if (cut != 0) {
      relative.assign(run.begin(), run.end());
      for (Entry& entry : relative) {
        entry.key.remove_prefix(cut);
        CutSubtreePrefix(entry, cut);
      }
      stored = relative;
    }
    HF_ASSIGN_OR_RETURN(const Bytes object,
                        SealEnvelope(ObjectKind::kBtreeNode,
                                     EncodeBody(height, stored, files_).view(),
                                     options_.compression));
    ChildEntry parent;
    parent.key = run.front().key;
    parent.subtree_prefix_byte_count = static_cast<uint16_t>(cut);
    HF_ASSIGN_OR_RETURN(parent.node, sink_(object));
    const std::string_view body = object.view();
    nodes_.push_back(
        // The last four bytes are the object's own CRC and are excluded.
        {parent.node, Crc32c(body.substr(0, body.size() - sizeof(uint32_t)))});
    parent.statistics.tree_byte_count = object.size();
    for (const Entry& entry : run) parent.statistics.Add(StatisticsOf(entry));
    return parent;
  }

  const DataFileTable& files_;
  const TreeOptions& options_;
  const NodeSink& sink_;
  std::vector<WrittenNode> nodes_;
};

}  // namespace

Result<BuiltTree> BuildTree(std::span<const LeafEntry> entries,
                            const DataFileTable& files,
                            const TreeOptions& options, const NodeSink& sink) {
  NodeBuilder builder(files, options, sink);
  BuiltTree tree;
  HF_ASSIGN_OR_RETURN(std::vector<ChildEntry> level,
                      builder.WriteLevel(entries, 0));
  // An interior node has at least two entries, so levels shrink fast and the
  // height stays far below 255.
  while (level.size() > 1) {
    ++tree.height;
    HF_ASSIGN_OR_RETURN(
        level,
        builder.WriteLevel(std::span<const ChildEntry>(level), tree.height));
  }
  tree.root = level.front().node;
  tree.statistics = level.front().statistics;
  tree.nodes = builder.TakeNodes();
  tree.node_count = tree.nodes.size();
  return tree;
}

}  // namespace holdfast::ocdbt
