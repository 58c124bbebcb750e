#include "formats/pickle/refused_parts.h"

#include <set>

namespace holdfast::pickle {
namespace {

// For each node, the nodes that refer to it: for node i, names[starts[i],
// starts[i + 1]).
struct NamedBy {
  std::vector<uint64_t> starts;
  std::vector<NodeIndex> names;
};

NamedBy FindNamedBy(const Program& program) {
  NamedBy found;
  found.starts.assign(program.nodes.size() + 1, 0);
  const auto node_count = static_cast<NodeIndex>(program.nodes.size());
  for (NodeIndex i = 0; i < node_count; ++i) {
    program.ForEachPart(i, [&](NodeIndex part) { ++found.starts[part + 1]; });
  }
  for (size_t i = 1; i < found.starts.size(); ++i) {
    found.starts[i] += found.starts[i - 1];
  }
  found.names.resize(found.starts.back());
  std::vector<uint64_t> ends(found.starts.begin(), found.starts.end() - 1);
  for (NodeIndex i = 0; i < node_count; ++i) {
    program.ForEachPart(i,
                        [&](NodeIndex part) { found.names[ends[part]++] = i; });
  }
  return found;
}

}  // namespace

RefusedParts::RefusedParts(const Program& program) : program_(program) {
  if (program.refusals.empty()) return;
  const size_t node_count = program.nodes.size();
  refusals_.assign(node_count, 0);
  told_.assign(node_count, false);
  in_root_.assign(node_count, false);
  const NamedBy named_by = FindNamedBy(program);
  std::vector<NodeIndex> open;
  for (NodeIndex i = 0; i < node_count; ++i) {
    if (program.nodes[i].kind != NodeKind::kRefused || refusals_[i] != 0) {
      continue;
    }
    const auto why = static_cast<uint32_t>(program.nodes[i].number) + 1;
    refusals_[i] = why;
    open.push_back(i);
    while (!open.empty()) {
      const NodeIndex at = open.back();
      open.pop_back();
      for (uint64_t k = named_by.starts[at]; k < named_by.starts[at + 1]; ++k) {
        const NodeIndex holder = named_by.names[k];
        if (refusals_[holder] != 0) continue;
        refusals_[holder] = why;
        open.push_back(holder);
      }
    }
  }
  Mark(program.root, in_root_);
}

Status RefusedParts::Below(NodeIndex node) const {
  if (refusals_.empty() || refusals_[node] == 0) return Status();
  return program_.refusals[refusals_[node] - 1];
}

void RefusedParts::Mark(NodeIndex node, std::vector<bool>& marks) const {
  if (refusals_.empty()) return;
  std::vector<NodeIndex> open;
  const auto visit = [&](NodeIndex at) {
    if (refusals_[at] == 0 || marks[at]) return;
    marks[at] = true;
    open.push_back(at);
  };
  visit(node);
  while (!open.empty()) {
    const NodeIndex at = open.back();
    open.pop_back();
    program_.ForEachPart(at, visit);
  }
}

std::vector<Status> RefusedParts::Untold() const {
  std::set<int64_t> numbers;
  for (size_t i = 0; i < refusals_.size(); ++i) {
    const Node& node = program_.nodes[i];
    if (node.kind == NodeKind::kRefused && in_root_[i] && !told_[i]) {
      numbers.insert(node.number);
    }
  }
  std::vector<Status> untold;
  for (const int64_t number : numbers) {
    untold.push_back(program_.refusals[static_cast<size_t>(number)]);
  }
  return untold;
}

Status RefusedParts::Hidden() const {
  for (size_t i = 0; i < refusals_.size(); ++i) {
    const Node& node = program_.nodes[i];
    if (node.kind == NodeKind::kRefused && !in_root_[i]) {
      return program_.refusals[static_cast<size_t>(node.number)];
    }
  }
  return Status();
}

}  // namespace holdfast::pickle
