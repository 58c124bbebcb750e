#include "tools/report/moved.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "ground/base/status_macros.h"
#include "holdfast/tools/drift.h"
#include "holdfast/tools/module_tree.h"
#include "tools/history/step_pairs.h"

namespace holdfast {
namespace {

constexpr size_t kPairsMax = 64;
constexpr size_t kCharactersMax = 400'000;

struct NodeSum {
  double moved = 0;  // moved, norm: sums of squares
  double norm = 0;
  bool is_known = false;
};

class Mover {
 public:
  Mover(const Checkpoint& shown, const RunOptions& run, StatsCache* cache)
      : run_(run), cache_(cache), tree_(MakeModuleTree(shown.leaves())) {
    for (size_t i = 0; i < tree_.nodes.size(); ++i) {
      const auto& leaf = tree_.nodes[i].leaf;
      if (leaf) nodes_.emplace(shown.leaves()[*leaf].name, i);
    }
    moved_.strips.resize(tree_.nodes.size());
  }

  Result<Moved> Run(const std::vector<StepInfo>& steps) {
    std::vector<const StepInfo*> committed;
    for (const StepInfo& step : steps) {
      if (step.committed) committed.push_back(&step);
    }
    const size_t pairs_max =
        std::clamp<size_t>(kCharactersMax / tree_.nodes.size(), 1, kPairsMax);
    const size_t first =
        committed.size() - std::min(committed.size(), pairs_max + 1);
    committed.erase(committed.begin(),
                    committed.begin() + static_cast<ptrdiff_t>(first));
    HF_RETURN_IF_ERROR(ForEachStepPair(
        committed, run_, cache_, [&](const StepPair& pair) { AddPair(pair); }));
    return std::move(moved_);
  }

 private:
  void AddPair(const StepPair& pair) {
    moved_.steps.push_back(pair.now.name);
    std::vector<NodeSum> sums(tree_.nodes.size());
    if (pair.drift.ok()) {
      for (const LeafDrift& leaf : pair.drift->leaves) {
        const auto node = nodes_.find(pair.opened->leaves()[leaf.now].name);
        if (node == nodes_.end() || !leaf.problem.ok()) continue;
        AddUp(node->second, leaf, sums);
      }
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      const double relative =
          sums[i].moved == 0 ? 0 : std::sqrt(sums[i].moved / sums[i].norm);
      moved_.strips[i] += sums[i].is_known ? MovedCharacter(relative) : '-';
    }
  }

  void AddUp(size_t node, const LeafDrift& leaf,
             std::vector<NodeSum>& sums) const {
    while (true) {
      sums[node].moved += leaf.moved * leaf.moved;
      sums[node].norm += leaf.norm * leaf.norm;
      sums[node].is_known = true;
      if (node == 0) return;
      node = tree_.nodes[node].parent;
    }
  }

  const RunOptions& run_;
  StatsCache* const cache_;
  const ModuleTree tree_;
  std::unordered_map<std::string, size_t> nodes_;  // of leaves
  Moved moved_;
};

}  // namespace

char MovedCharacter(double relative) {
  if (relative == 0) return '0';
  constexpr double kDecadeMin = -8, kDecades = 9;
  const double share = (std::log10(relative) - kDecadeMin) / kDecades;
  return static_cast<char>(
      'A' + std::lround(std::clamp(share, 0.0, 1.0) * ('z' - 'A')));
}

Result<Moved> WhatMoved(const Checkpoint& shown,
                        const std::vector<StepInfo>& steps,
                        const RunOptions& run, StatsCache* cache) {
  return Mover(shown, run, cache).Run(steps);
}

}  // namespace holdfast
