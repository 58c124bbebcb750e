#include "engine/device/load_fingerprints.h"

#include "ground/base/executor.h"
#include "ground/base/status_macros.h"
#include "ground/fingerprint/parts.h"
#include "ground/tensor/box_index.h"

namespace holdfast {

void LoadFingerprints::Plan(const std::vector<WantedPart>& parts,
                            const std::vector<LoadWindow>& windows,
                            const std::set<size_t>& on_devices,
                            const std::set<size_t>& decoded_on_devices) {
  std::map<size_t, std::set<size_t>> windows_of_leaf;
  for (size_t i = 0; i < windows.size(); ++i) {
    for (const LoadPiece& piece : windows[i].pieces) {
      const size_t leaf = parts[piece.part].leaf;
      if (leaves_[leaf].fingerprint.empty()) continue;
      windows_of_leaf[leaf].insert(i);
    }
  }
  for (const auto& [leaf, in] : windows_of_leaf) {
    const LeafInfo& info = leaves_[leaf];
    std::vector<Box> boxes;
    bool is_cast = false;
    for (const WantedPart& part : parts) {
      if (part.leaf != leaf) continue;
      boxes.push_back(part.box);
      is_cast = is_cast || part.dtype != *info.dtype;
    }
    if (is_cast || !BoxIndex(std::move(boxes)).CheckCover(info.shape).ok()) {
      continue;
    }
    if (in.size() == 1) {
      if (!decoded_on_devices.contains(leaf)) in_one_window_.insert(leaf);
    } else if (!on_devices.contains(leaf)) {
      sums_[leaf];
    }
  }
}

Status LoadFingerprints::Add(const std::vector<ReadRequest>& requests,
                             int thread_count, const CancelToken& cancel) {
  if (sums_.empty()) return Status();
  std::vector<FingerprintPart> summed;
  std::vector<size_t> leaves;  // as `summed`
  for (const ReadRequest& request : requests) {
    if (!sums_.contains(request.leaf)) continue;
    summed.push_back(
        {request.target, request.origin, leaves_[request.leaf].shape});
    leaves.push_back(request.leaf);
  }
  Executor executor(thread_count);
  HF_ASSIGN_OR_RETURN(const std::vector<FingerprintSum> sums,
                      SumsOf(summed, executor, cancel));
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < sums.size(); ++i) sums_[leaves[i]] += sums[i];
  return Status();
}

Result<uint64_t> LoadFingerprints::Check() const {
  for (const auto& [leaf, sum] : sums_) {
    const LeafInfo& info = leaves_[leaf];
    HF_RETURN_IF_ERROR(CheckFingerprint(info.name, *info.dtype, info.shape, sum,
                                        info.fingerprint));
  }
  return sums_.size();
}

}  // namespace holdfast
