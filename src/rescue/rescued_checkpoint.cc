#include "rescue/rescued_checkpoint.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace holdfast {

RescuedCheckpoint::RescuedCheckpoint(
    CheckpointInfo info, std::vector<std::shared_ptr<const Checkpoint>> parts,
    const std::vector<RescuedLeaf>& leaves)
    : parts_(std::move(parts)) {
  info_ = std::move(info);
  for (const RescuedLeaf& leaf : leaves) {
    infos_.push_back(leaf.info);
    origins_.push_back({leaf.part, leaf.leaf});
  }
}

Result<Stats> RescuedCheckpoint::DoReadInto(
    const std::vector<ReadRequest>& requests, const RunOptions& run) const {
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
    stats.decoded_bytes += one.decoded_bytes;
    stats.stored_bytes += one.stored_bytes;
    stats.chunk_count += one.chunk_count;
    stats.in_flight_bytes_peak =
        std::max(stats.in_flight_bytes_peak, one.in_flight_bytes_peak);
  }
  return stats;
}

Result<std::string> RescuedCheckpoint::DoReadText(size_t leaf) const {
  return parts_[origins_[leaf].part]->ReadText(origins_[leaf].leaf);
}

}  // namespace holdfast
