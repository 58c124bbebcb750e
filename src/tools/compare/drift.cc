#include "holdfast/tools/drift.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>
#include <utility>

#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "holdfast/tools/stats_cache.h"
#include "tools/compare/in_order.h"
#include "tools/compare/load_numbers.h"
#include "tools/compare/match_leaves.h"
#include "tools/compare/slab_reader.h"

namespace holdfast {
namespace {

struct Squares {
  double moved = 0;
  double norm = 0;

  void Join(const Squares& next) {
    moved += next.moved;
    norm += next.norm;
  }
};

// Elements that are processed together.
constexpr size_t kDriftRun = 256;

template <typename Number>
Squares SquaresOf(const Number* before, const Number* now, size_t count) {
  Squares squares;
  for (size_t i = 0; i < count; ++i) {
    const auto moved = static_cast<double>(now[i] - before[i]);
    // Counts only pairs of finite numbers.
    if (!std::isfinite(moved)) continue;
    squares.moved += moved * moved;
    squares.norm += static_cast<double>(before[i] * before[i]);
  }
  return squares;
}

struct NumberSide {
  DType dtype;
  const char* elements;

  const char* At(size_t element) const {
    return elements + element * static_cast<size_t>(DTypeBytes(dtype));
  }
};

template <typename Number, typename Load>
Squares SquaresOfRuns(const NumberSide& before, const NumberSide& now,
                      size_t count, Load load) {
  std::array<Number, 2 * kDriftRun> a{}, b{};
  Squares squares;
  for (size_t first = 0; first < count; first += kDriftRun) {
    const size_t run = std::min(kDriftRun, count - first);
    load(before.dtype, before.At(first), run, a.data());
    load(now.dtype, now.At(first), run, b.data());
    squares.Join(SquaresOf(a.data(), b.data(),
                           run * static_cast<size_t>(PartsOf(now.dtype))));
  }
  return squares;
}

Squares SquaresOfElements(const NumberSide& before, const NumberSide& now,
                          size_t count) {
  if (FitsDouble(before.dtype) && FitsDouble(now.dtype)) {
    return SquaresOfRuns<double>(before, now, count, LoadDoubles);
  }
  return SquaresOfRuns<long double>(before, now, count, LoadLongDoubles);
}

class DriftMaker {
 public:
  DriftMaker(const Checkpoint& before, const Checkpoint& now,
             const DriftOptions& options)
      : before_(before), now_(now), options_(options) {}

  Result<DriftResult> Run() {
    Stopwatch watch;
    DiffOptions matching;
    matching.ignore_dtype = true;
    HF_ASSIGN_OR_RETURN(const std::vector<LeafDiff> pairs,
                        MatchLeaves(now_.leaves(), before_.leaves(), matching));
    for (const LeafDiff& pair : pairs) AddPair(pair);
    FindKnown();
    HF_RETURN_IF_ERROR(Read());
    for (size_t i = 0; i < result_.leaves.size(); ++i) {
      if (is_known_[i] || !result_.leaves[i].problem.ok()) continue;
      result_.leaves[i].moved = std::sqrt(found_[i].joined().moved);
      result_.leaves[i].norm = std::sqrt(found_[i].joined().norm);
      if (!UsesCache()) continue;
      options_.cache->PutDrift(options_.identity_before, options_.identity_now,
                               NameOf(result_.leaves[i]), result_.leaves[i]);
    }
    result_.stats.total_seconds = watch.Lap();
    return std::move(result_);
  }

 private:
  void AddPair(const LeafDiff& pair) {
    if (!pair.a || !pair.b) return;
    const LeafInfo& now = now_.leaves()[*pair.a];
    const LeafInfo& before = before_.leaves()[*pair.b];
    if (options_.select && !options_.select(now)) return;
    if (!now.dtype || !before.dtype || now.shape != before.shape) return;
    if (PartsOf(*now.dtype) != PartsOf(*before.dtype)) return;
    const Status& problem = now.problem.ok() ? before.problem : now.problem;
    result_.leaves.push_back(
        {.before = *pair.b, .now = *pair.a, .problem = problem});
  }

  bool UsesCache() const {
    return options_.cache != nullptr && !options_.identity_before.empty() &&
           !options_.identity_now.empty();
  }
  const std::string& NameOf(const LeafDrift& leaf) const {
    return now_.leaves()[leaf.now].name;
  }

  void FindKnown() {
    is_known_.resize(result_.leaves.size());
    if (!UsesCache()) return;
    for (size_t i = 0; i < is_known_.size(); ++i) {
      LeafDrift& leaf = result_.leaves[i];
      is_known_[i] =
          leaf.problem.ok() &&
          options_.cache->FindDrift(options_.identity_before,
                                    options_.identity_now, NameOf(leaf), leaf);
    }
  }

  Status Read() {
    std::vector<SlabTensor> tensors(result_.leaves.size());
    found_.resize(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      const LeafDrift& leaf = result_.leaves[i];
      if (!leaf.problem.ok() || is_known_[i]) continue;
      tensors[i].sides = {{&before_, leaf.before}, {&now_, leaf.now}};
    }
    std::mutex mutex;
    SlabWork work;
    work.add = [&](const Slab& slab) {
      const LeafDrift& leaf = result_.leaves[slab.tensor];
      const Squares squares = SquaresOfElements(
          {*before_.leaves()[leaf.before].dtype, slab.elements[0]},
          {*now_.leaves()[leaf.now].dtype, slab.elements[1]},
          static_cast<size_t>(slab.element_count()));
      const std::lock_guard lock(mutex);
      found_[slab.tensor].Add(slab.number, squares);
    };
    work.fail = [&](size_t tensor, const Status& status) {
      result_.leaves[tensor].problem = status;
    };
    return ReadSlabs(tensors, work, options_.run, "drift", result_.stats);
  }

  const Checkpoint& before_;
  const Checkpoint& now_;
  const DriftOptions& options_;
  DriftResult result_;
  std::vector<InOrder<Squares>> found_;  // in the order of result_.leaves
  std::vector<bool> is_known_;           // in the same order: from the cache
};

}  // namespace

double LeafDrift::relative() const {
  if (moved == 0) return 0;
  return norm == 0 ? std::numeric_limits<double>::infinity() : moved / norm;
}

Result<DriftResult> ComputeDrift(const Checkpoint& before,
                                 const Checkpoint& now,
                                 const DriftOptions& options) {
  return CatchBadAlloc([&] { return DriftMaker(before, now, options).Run(); });
}

}  // namespace holdfast
