// A checkpoint merged from several: it forwards each read to the part that
// holds the leaf, and computes means on demand.
//
// Thread-safety, errors: as in holdfast/checkpoint.h.
// Ownership: shares the parts.
// Units: bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ground/run/run.h"
#include "ground/tensor/box.h"
#include "holdfast/checkpoint.h"
#include "tools/compare/merge_plan.h"

namespace holdfast {

class MergedCheckpoint final : public Checkpoint {
 public:
  // `weights` has one weight for each part. It is used only for leaves that are
  // means.
  MergedCheckpoint(std::vector<MergePart> parts, std::vector<MergedLeaf> leaves,
                   std::vector<double> weights);

 protected:
  Result<Stats> DoReadInto(const std::vector<ReadRequest>& requests,
                           const RunOptions& run) const override;
  Result<std::string> DoReadText(size_t leaf) const override;

 private:
  const Checkpoint& PartOf(const MergeOrigin& origin) const {
    return *parts_[origin.part].checkpoint;
  }
  Result<Stats> ReadPlain(const std::vector<ReadRequest>& requests,
                          const RunOptions& run) const;
  Result<Stats> ReadAverages(const std::vector<ReadRequest>& requests,
                             const RunOptions& options) const;
  // Sets `target` to the mean of the parts' elements in `box`, a box of the
  // leaf.
  Status ReadAverage(size_t leaf, const Box& box, const ArrayView& target,
                     const RunOptions& read, Stats& stats) const;

  const std::vector<MergePart> parts_;
  const std::vector<MergedLeaf> leaves_;
  const std::vector<double> weights_;
};

}  // namespace holdfast
