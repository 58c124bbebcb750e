// The checkpoint that a rescue writes: each leaf is one of another checkpoint.
//
// Thread-safety, errors: as holdfast/checkpoint.h. Ownership: shares the parts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "holdfast/checkpoint.h"

namespace holdfast {

struct RescuedLeaf {
  LeafInfo info;
  size_t part = 0;
  size_t leaf = 0;  // its number there
};

class RescuedCheckpoint final : public Checkpoint {
 public:
  RescuedCheckpoint(CheckpointInfo info,
                    std::vector<std::shared_ptr<const Checkpoint>> parts,
                    const std::vector<RescuedLeaf>& leaves);

 protected:
  Result<Stats> DoReadInto(const std::vector<ReadRequest>& requests,
                           const RunOptions& run) const override;
  Result<std::string> DoReadText(size_t leaf) const override;

 private:
  struct Origin {
    size_t part = 0;
    size_t leaf = 0;
  };

  const std::vector<std::shared_ptr<const Checkpoint>> parts_;
  std::vector<Origin> origins_;  // as infos_
};

}  // namespace holdfast
