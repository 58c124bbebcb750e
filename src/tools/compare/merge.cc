#include "holdfast/tools/merge.h"

#include <utility>

#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "holdfast/tools/diff.h"
#include "tools/compare/merge_plan.h"
#include "tools/compare/merged_checkpoint.h"

namespace holdfast {
namespace {

// Checks that leaves that are not averaged are equal in all parts.
Status CheckEqual(const std::vector<MergePart>& parts,
                  const MergeOptions& options) {
  DiffOptions diff;
  diff.run = options.run;
  diff.run.progress = {};
  diff.find_renamed = false;
  diff.select = [](const LeafInfo& leaf) { return !IsAveraged(leaf); };
  for (size_t i = 1; i < parts.size(); ++i) {
    HF_ASSIGN_OR_RETURN(const DiffResult result,
                        Diff(*parts[0].checkpoint, *parts[i].checkpoint, diff));
    for (const LeafDiff& leaf : result.leaves) {
      if (leaf.verdict == DiffVerdict::kSame) continue;
      if (!leaf.problem.ok()) return leaf.problem;
      return InvalidArgumentError(
          "merge: leaf " + leaf.name + ": " + PartLabel(parts[0]) + " and " +
          PartLabel(parts[i]) +
          " hold different values, and only floats have a mean");
    }
  }
  return Status();
}

Result<std::unique_ptr<Checkpoint>> MakeMerged(std::vector<MergePart> parts,
                                               const MergeOptions& options) {
  if (parts.empty()) return InvalidArgumentError("merge: no sources");
  HF_ASSIGN_OR_RETURN(std::vector<MergedLeaf> leaves,
                      PlanMerge(parts, options));
  if (options.average && !options.take_first) {
    HF_RETURN_IF_ERROR(CheckEqual(parts, options));
  }
  std::vector<double> weights = options.weights;
  weights.resize(parts.size(), 1.0);
  return std::unique_ptr<Checkpoint>(std::make_unique<MergedCheckpoint>(
      std::move(parts), std::move(leaves), std::move(weights)));
}

Result<ConvertResult> MergeTo(const std::vector<MergeSource>& sources,
                              const std::string& target,
                              const MergeOptions& options,
                              const ConvertOptions& convert) {
  std::vector<MergePart> parts;
  ConvertOptions of_all = convert;
  for (const MergeSource& source : sources) {
    HF_ASSIGN_OR_RETURN(auto opened, Open(source.path, source.open));
    of_all.copies_of.push_back(opened->info().path);
    parts.push_back({std::move(opened), source.prefix, source.path});
  }
  HF_ASSIGN_OR_RETURN(const auto merged, MakeMerged(std::move(parts), options));
  return ConvertFrom(*merged, target, of_all);
}

}  // namespace

Result<ConvertResult> Merge(const std::vector<MergeSource>& sources,
                            const std::string& target,
                            const MergeOptions& options,
                            const ConvertOptions& convert) {
  return CatchBadAlloc(
      [&] { return MergeTo(sources, target, options, convert); });
}

Result<std::unique_ptr<Checkpoint>> MergeCheckpoints(
    std::vector<MergePart> parts, const MergeOptions& options) {
  return CatchBadAlloc([&] { return MakeMerged(std::move(parts), options); });
}

}  // namespace holdfast
