// Joins leaves of several checkpoints into one: the items of a step, each
// opened separately, or the intact leaves that a rescue has found.
//
// Thread-safety, errors: as holdfast/checkpoint.h. Ownership: shares the parts.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/checkpoint.h"

namespace holdfast {

struct JoinedLeaf {
  LeafInfo info;
  size_t part = 0;
  size_t leaf = 0;  // its index there
};

class JoinedLeaves final : public Checkpoint {
 public:
  JoinedLeaves(CheckpointInfo info,
               std::vector<std::shared_ptr<const Checkpoint>> parts,
               std::vector<JoinedLeaf> leaves);

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
  std::vector<Origin> origins_;  // in the order of infos_
};

// Joins the items of a step. `info` is the info of the step. Names and keys of
// leaves start with the item's name; info().bases has the bases of all items.
using NamedItem = std::pair<std::string, std::shared_ptr<const Checkpoint>>;
std::unique_ptr<Checkpoint> JoinItems(CheckpointInfo info,
                                      const std::vector<NamedItem>& items);

}  // namespace holdfast
