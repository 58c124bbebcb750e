// LoadFingerprints: the check on the host of elements that were read in several
// windows, where no read sees the complete array (OpenOptions::fingerprints).
//
// Thread-safety: Add from any thread. Ownership: borrows the leaves.
// Errors: as Checkpoint::ReadInto; Cancelled.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "engine/device/load_plan.h"
#include "ground/base/cancel.h"
#include "ground/fingerprint/sum.h"
#include "holdfast/checkpoint.h"

namespace holdfast {

class LoadFingerprints {
 public:
  explicit LoadFingerprints(const std::vector<LeafInfo>& leaves)
      : leaves_(leaves) {}

  // Finds the leaves to check: those with a fingerprint, of which all elements
  // are wanted once, in their own dtype, in several windows; but not those that
  // the devices check. The read checks leaves in one window, unless devices
  // decode them.
  void Plan(const std::vector<WantedPart>& parts,
            const std::vector<LoadWindow>& windows,
            const std::set<size_t>& on_devices,
            const std::set<size_t>& decoded_on_devices);
  // Returns whether the host checks a leaf: this, or the read of its window.
  bool Checks(size_t leaf) const {
    return sums_.contains(leaf) || in_one_window_.contains(leaf);
  }
  // Adds the elements of a window, which were read with `requests`.
  Status Add(const std::vector<ReadRequest>& requests, int thread_count,
             const CancelToken& cancel);
  // Compares the sums, after all windows were added, and returns how many
  // arrays were checked.
  Result<uint64_t> Check() const;

 private:
  const std::vector<LeafInfo>& leaves_;
  std::mutex mutex_;
  std::map<size_t, FingerprintSum> sums_;  // by leaf
  std::set<size_t> in_one_window_;         // leaves that their read checks
};

}  // namespace holdfast
