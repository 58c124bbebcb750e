// ComputeStats: computes statistics of each tensor's elements.
//
//   auto checkpoint = holdfast::Open("/ckpt/7");
//   auto stats = holdfast::ComputeStats(**checkpoint);
//   for (const holdfast::LeafStats& leaf : stats->leaves) ...
//
// NaNs and infinities are counted; everything else is computed from the finite
// elements only. For complex tensors, absmax is the largest modulus, mean is a
// complex number, std is the root of the mean squared distance from the mean,
// and min and max are absent. Elements of bool tensors count as 0 and 1.
//
// Elements are summed in runs of a fixed length, each around its own mean, and
// the runs are combined in order (Chan, Golub and LeVeque, 1983). So results do
// not depend on the number of threads, and are accurate to about 1e-15 of the
// spread, whatever the mean. Sums of integers are exact.
//
// Thread-safety: may run concurrently on the same checkpoint.
// Units: bytes, elements.
// Errors: Cancelled. A leaf that cannot be read is listed in the result, with
// the reason, and does not stop the rest.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/status.h"
#include "holdfast/tree.h"

namespace holdfast HOLDFAST_EXPORT {

class StatsCache;

struct StatsOptions {
  // Threads, memory, progress (phase "stats", decoded bytes), cancel.
  RunOptions run;
  // Returns true for the leaves to measure. Empty: all. Only arrays and scalars
  // have statistics.
  std::function<bool(const LeafInfo&)> select;
  // Fill LeafStats::histogram.
  bool histograms = false;
  // Statistics are looked up in this cache, and new ones are added to it, under
  // `identity` (holdfast/tools/stats_cache.h). Borrowed.
  StatsCache* cache = nullptr;
  std::string identity;  // if empty, the cache is not used
};

// Counts of a sample of a tensor's finite elements, by sign and power of two.
// The bins go from the most negative to the most positive elements, with zeros
// in the middle. The two outermost bins also count larger magnitudes, and the
// two bins next to the zeros also count smaller ones.
struct MagnitudeHistogram {
  static constexpr int kExponentMin = -40;
  static constexpr int kExponentMax = 39;
  static constexpr int kZeroBin = kExponentMax - kExponentMin + 1;

  uint64_t sample_count = 0;
  std::array<uint64_t, 2 * kZeroBin + 1> counts{};
};

struct LeafStats {
  size_t leaf = 0;  // index into leaves()
  std::string name;
  DType dtype = DType::kUint8;
  Shape shape;
  uint64_t element_count = 0;
  uint64_t bytes = 0;  // the elements in memory
  // An estimate, from samples, of the stored bytes with Compression::kPlanes
  // and chunks of 8 MiB.
  uint64_t planes_bytes = 0;
  uint64_t zero_count = 0;
  uint64_t nan_count = 0;
  uint64_t positive_infinity_count = 0;
  uint64_t negative_infinity_count = 0;
  // Complex numbers with an infinite part and without a NaN.
  uint64_t complex_infinity_count = 0;
  uint64_t finite_count = 0;
  // Exact: an int64, a uint64 or a float64. Absent if no element is finite.
  std::optional<Scalar> min;
  std::optional<Scalar> max;
  std::optional<Scalar> absmax;  // uint64 or float64
  // NaN if no element is finite.
  double mean = 0;
  double mean_imaginary = 0;  // complex tensors
  double std = 0;             // of the population, not a sample (ddof = 0)
  double l2_norm = 0;         // 0 if no element is finite
  std::optional<MagnitudeHistogram> histogram;
  Status problem;

  uint64_t infinity_count() const {
    return positive_infinity_count + negative_infinity_count +
           complex_infinity_count;
  }
  bool has_non_finite() const { return finite_count != element_count; }
};

struct StatsResult {
  std::vector<LeafStats> leaves;  // in the checkpoint's order
  // Sums over all leaves.
  uint64_t element_count = 0;
  uint64_t bytes = 0;
  uint64_t planes_bytes = 0;
  uint64_t zero_count = 0;
  uint64_t nan_count = 0;
  uint64_t infinity_count = 0;
  uint64_t non_finite_leaf_count = 0;
  uint64_t unreadable_count = 0;
  double l2_norm = 0;  // over all elements together
  double absmax = 0;
  Stats stats;
};

Result<StatsResult> ComputeStats(const Checkpoint& checkpoint,
                                 const StatsOptions& options = {});

}  // namespace holdfast
