#include "holdfast/tools/stats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <utility>

#include "engine/restore/leaf_request.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "holdfast/tools/stats_cache.h"
#include "tools/compare/element_stats.h"
#include "tools/compare/histogram.h"
#include "tools/compare/in_order.h"
#include "tools/compare/match_leaves.h"
#include "tools/compare/planes_estimate.h"
#include "tools/compare/slab_reader.h"

namespace holdfast {
namespace {

void FillIntegers(const ElementStats& from, LeafStats& leaf) {
  leaf.mean = static_cast<double>(static_cast<long double>(from.sum) /
                                  static_cast<long double>(from.element_count));
  if (DTypeKindOf(leaf.dtype) == DTypeKind::kUnsigned) {
    leaf.min = Scalar::Of(DType::kUint64, from.unsigned_min, false);
    leaf.max = Scalar::Of(DType::kUint64, from.unsigned_max, false);
    leaf.absmax = leaf.max;
    return;
  }
  leaf.min = Scalar::Of(DType::kInt64, from.signed_min, false);
  leaf.max = Scalar::Of(DType::kInt64, from.signed_max, false);
  const auto magnitude = [](int64_t value) {
    const auto bits = static_cast<uint64_t>(value);
    return value < 0 ? uint64_t{0} - bits : bits;
  };
  leaf.absmax = Scalar::Of(
      DType::kUint64,
      std::max(magnitude(from.signed_min), magnitude(from.signed_max)), false);
}

void Fill(const ElementStats& from, LeafStats& leaf) {
  const DTypeKind kind = DTypeKindOf(leaf.dtype);
  leaf.zero_count = from.zero_count;
  leaf.nan_count = from.nan_count;
  leaf.positive_infinity_count = from.positive_infinity_count;
  leaf.negative_infinity_count = from.negative_infinity_count;
  leaf.complex_infinity_count = from.complex_infinity_count;
  leaf.finite_count = from.spread.count;
  if (leaf.finite_count == 0) {
    leaf.mean = leaf.std = std::numeric_limits<double>::quiet_NaN();
    return;
  }
  leaf.mean = static_cast<double>(from.spread.mean);
  const auto count = static_cast<long double>(from.spread.count);
  leaf.std = static_cast<double>(
      std::sqrt((from.spread.m2 + from.imaginary.m2) / count));
  leaf.l2_norm = static_cast<double>(std::sqrt(from.sum_of_squares));
  if (kind < DTypeKind::kFloat) return FillIntegers(from, leaf);
  leaf.absmax = Scalar::Of(DType::kFloat64, from.absmax, false);
  if (kind == DTypeKind::kComplex) {
    leaf.mean_imaginary = static_cast<double>(from.imaginary.mean);
    return;
  }
  leaf.min = Scalar::Of(DType::kFloat64, from.min, false);
  leaf.max = Scalar::Of(DType::kFloat64, from.max, false);
}

double AbsMaxOf(const LeafStats& leaf) {
  if (!leaf.absmax) return 0;
  return leaf.absmax->dtype == DType::kUint64
             ? static_cast<double>(leaf.absmax->As<uint64_t>())
             : leaf.absmax->As<double>();
}

void AddSample(const MagnitudeHistogram& sample, LeafStats& leaf) {
  MagnitudeHistogram& sum =
      leaf.histogram ? *leaf.histogram : leaf.histogram.emplace();
  sum.sample_count += sample.sample_count;
  for (size_t i = 0; i < sum.counts.size(); ++i) {
    sum.counts[i] += sample.counts[i];
  }
}

class StatsMaker {
 public:
  StatsMaker(const Checkpoint& checkpoint, const StatsOptions& options)
      : checkpoint_(checkpoint), options_(options) {}

  Result<StatsResult> Run() {
    Stopwatch watch;
    ChooseLeaves();
    FindKnown();
    HF_RETURN_IF_ERROR(Read());
    for (size_t i = 0; i < result_.leaves.size(); ++i) {
      LeafStats& leaf = result_.leaves[i];
      if (leaf.problem.ok() && !is_known_[i]) {
        Fill(found_[i].joined(), leaf);
        if (UsesCache()) options_.cache->Put(options_.identity, leaf);
      }
      Add(leaf, is_known_[i]
                    ? static_cast<long double>(leaf.l2_norm) * leaf.l2_norm
                    : found_[i].joined().sum_of_squares);
    }
    result_.l2_norm = static_cast<double>(std::sqrt(sum_of_squares_));
    result_.stats.total_seconds = watch.Lap();
    return std::move(result_);
  }

 private:
  void ChooseLeaves() {
    for (size_t i = 0; i < checkpoint_.leaves().size(); ++i) {
      const LeafInfo& info = checkpoint_.leaves()[i];
      if (!HasElements(info.kind)) continue;
      if (options_.select && !options_.select(info)) continue;
      LeafStats& leaf = result_.leaves.emplace_back();
      leaf.leaf = i;
      leaf.name = info.name;
      leaf.problem = info.problem;
      if (!info.dtype) continue;
      leaf.dtype = *info.dtype;
      leaf.shape = info.shape;
      leaf.element_count = static_cast<uint64_t>(ElementCount(info.shape));
      leaf.bytes = leaf.element_count * DTypeBytes(*info.dtype);
    }
  }

  bool UsesCache() const {
    return options_.cache != nullptr && !options_.identity.empty();
  }

  void FindKnown() {
    is_known_.resize(result_.leaves.size());
    if (!UsesCache()) return;
    for (size_t i = 0; i < is_known_.size(); ++i) {
      LeafStats& leaf = result_.leaves[i];
      is_known_[i] =
          leaf.problem.ok() &&
          options_.cache->Find(options_.identity, options_.histograms, leaf);
    }
  }

  Status Read() {
    std::vector<SlabTensor> tensors(result_.leaves.size());
    found_.resize(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!result_.leaves[i].problem.ok() || is_known_[i]) continue;
      tensors[i].sides = {{&checkpoint_, result_.leaves[i].leaf}};
    }
    std::mutex mutex;
    SlabWork work;
    work.add = [&](const Slab& slab) {
      const ElementStats stats =
          StatsOfElements(result_.leaves[slab.tensor].dtype, slab.elements[0],
                          static_cast<size_t>(slab.element_count()));
      const uint64_t planes_bytes =
          planes_.Estimate(result_.leaves[slab.tensor].dtype, slab.elements[0],
                           slab.element_count());
      MagnitudeHistogram sample;
      if (options_.histograms) {
        SampleHistogram(result_.leaves[slab.tensor].dtype, slab.elements[0],
                        static_cast<size_t>(slab.element_count()),
                        result_.leaves[slab.tensor].element_count, sample);
      }
      const std::lock_guard lock(mutex);
      found_[slab.tensor].Add(slab.number, stats);
      result_.leaves[slab.tensor].planes_bytes += planes_bytes;
      if (options_.histograms) AddSample(sample, result_.leaves[slab.tensor]);
    };
    work.fail = [&](size_t tensor, const Status& status) {
      result_.leaves[tensor].problem = status;
    };
    return ReadSlabs(tensors, work, options_.run, "stats", result_.stats);
  }

  void Add(const LeafStats& leaf, long double sum_of_squares) {
    if (!leaf.problem.ok()) {
      ++result_.unreadable_count;
      return;
    }
    result_.element_count += leaf.element_count;
    result_.bytes += leaf.bytes;
    result_.planes_bytes += leaf.planes_bytes;
    result_.zero_count += leaf.zero_count;
    result_.nan_count += leaf.nan_count;
    result_.infinity_count += leaf.infinity_count();
    result_.non_finite_leaf_count += leaf.has_non_finite();
    sum_of_squares_ += sum_of_squares;
    result_.absmax = std::max(result_.absmax, AbsMaxOf(leaf));
  }

  const Checkpoint& checkpoint_;
  const StatsOptions& options_;
  StatsResult result_;
  std::vector<InOrder<ElementStats>> found_;  // in the order of result_.leaves
  std::vector<bool> is_known_;  // same order: from the cache
  PlanesEstimate planes_;
  long double sum_of_squares_ = 0;
};

}  // namespace

Result<StatsResult> ComputeStats(const Checkpoint& checkpoint,
                                 const StatsOptions& options) {
  return CatchBadAlloc([&] { return StatsMaker(checkpoint, options).Run(); });
}

}  // namespace holdfast
