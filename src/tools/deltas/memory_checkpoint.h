// A checkpoint of arrays in memory, from which a chain of deltas can start.
//
// Thread-safety: as the memory's. Ownership: borrows the memory. Errors: none.
#pragma once

#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/delta.h"

namespace holdfast {

class MemoryCheckpoint final : public Checkpoint {
 public:
  // `result_id` is the id of the step in memory, or empty.
  MemoryCheckpoint(const std::vector<Follower::Target>& arrays,
                   std::string path, std::string result_id);

 protected:
  Result<Stats> DoReadInto(const std::vector<ReadRequest>& requests,
                           const RunOptions& run) const override;
  Result<std::string> DoReadText(size_t leaf) const override;

 private:
  std::vector<ArrayView> memory_;  // in the order of infos_
};

}  // namespace holdfast
