#include "foreign/sidecar/joined_leaves.h"

#include <algorithm>
#include <utility>

#include "ground/base/status_macros.h"

namespace holdfast {

JoinedLeaves::JoinedLeaves(CheckpointInfo info,
                           std::vector<std::shared_ptr<const Checkpoint>> parts,
                           std::vector<JoinedLeaf> leaves)
    : parts_(std::move(parts)) {
  info_ = std::move(info);
  for (JoinedLeaf& leaf : leaves) {
    infos_.push_back(std::move(leaf.info));
    origins_.push_back({leaf.part, leaf.leaf});
  }
}

Result<Stats> JoinedLeaves::DoReadInto(const std::vector<ReadRequest>& requests,
                                       const RunOptions& run) const {
  std::vector<std::vector<ReadRequest>> by_part(parts_.size());
  for (const ReadRequest& request : requests) {
    const Origin& origin = origins_[request.leaf];
    by_part[origin.part].push_back(
        {origin.leaf, request.origin, request.target});
  }
  Stats stats;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (by_part[i].empty()) continue;
    HF_ASSIGN_OR_RETURN(const Stats one, parts_[i]->ReadInto(by_part[i], run));
    stats.Add(one);
  }
  return stats;
}

Result<std::string> JoinedLeaves::DoReadText(size_t leaf) const {
  return parts_[origins_[leaf].part]->ReadText(origins_[leaf].leaf);
}

std::unique_ptr<Checkpoint> JoinItems(CheckpointInfo info,
                                      const std::vector<NamedItem>& items) {
  std::vector<std::shared_ptr<const Checkpoint>> parts;
  std::vector<JoinedLeaf> joined;
  for (const auto& [item, checkpoint] : items) {
    for (const std::string& base : checkpoint->info().bases) {
      if (std::ranges::find(info.bases, base) == info.bases.end()) {
        info.bases.push_back(base);
      }
    }
    const std::vector<LeafInfo>& leaves = checkpoint->leaves();
    for (size_t i = 0; i < leaves.size(); ++i) {
      LeafInfo leaf = leaves[i];
      leaf.name = item + (leaf.name.empty() ? "" : ".") + leaf.name;
      leaf.key.insert(leaf.key.begin(), item);
      leaf.key_kinds.insert(leaf.key_kinds.begin(), KeyKind::kName);
      joined.push_back({std::move(leaf), parts.size(), i});
    }
    parts.push_back(checkpoint);
  }
  return std::make_unique<JoinedLeaves>(std::move(info), std::move(parts),
                                        std::move(joined));
}

}  // namespace holdfast
