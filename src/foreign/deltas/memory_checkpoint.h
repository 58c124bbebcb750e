// Arrays in memory as a checkpoint, for the reader of a chain to start from.
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
  // `result_id`: of the step that the memory holds, or empty.
  MemoryCheckpoint(const std::vector<Follower::Target>& arrays,
                   std::string path, std::string result_id);

 protected:
  Result<Stats> DoReadInto(const std::vector<ReadRequest>& requests,
                           const RunOptions& run) const override;
  Result<std::string> DoReadText(size_t leaf) const override;

 private:
  std::vector<ArrayView> memory_;  // as infos_
};

}  // namespace holdfast
