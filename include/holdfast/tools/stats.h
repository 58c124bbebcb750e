// TensorStats: what the numbers of each tensor are like.
//
//   auto checkpoint = holdfast::Open("/ckpt/7");
//   auto stats = holdfast::ComputeStats(**checkpoint);
//   for (const holdfast::LeafStats& leaf : stats->leaves) ...
//
// Everything but the counts is over the finite elements; NaNs and infinities
// are counted. In complex tensors absmax is the largest modulus, mean a complex
// number, std the root of the mean squared modulus of the distance from it;
// they have no min and no max. In bool tensors elements are 0 and 1.
//
// Sums are taken over runs of elements of a fixed length, each around its own
// mean, which are joined in order (Chan, Golub and LeVeque, 1983), so that the
// results do not depend on the number of threads, and are good to about 1e-15
// of the spread whatever the mean is. Sums of integers are exact.
// Thread-safety: may run concurrently on the same checkpoint.
// Units: bytes, elements.
// Errors: Cancelled. A leaf that cannot be read is in the result, with the
// reason, and stops nothing else.
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
  // Selects leaves; empty: all. Only arrays and scalars have statistics.
  std::function<bool(const LeafInfo&)> select;
  // Fill in LeafStats::histogram.
  bool histograms = false;
  // Where what is known already is found, and what is measured is kept, for the
  // checkpoint of this identity (holdfast/tools/stats_cache.h). Borrowed.
  StatsCache* cache = nullptr;
  std::string identity;  // empty: the cache is not asked
};

// Counts, for a sample of a tensor's finite elements, how many have which sign
// and which power of two. From the most negative bin to the most positive; in
// the middle the zeros. A bin at an end has what lies beyond it, too; the two
// beside the zeros what is smaller.
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
  uint64_t bytes = 0;  // of the elements in memory
  // The bytes they would take stored with Compression::kPlanes, in chunks of 8
  // MiB: an estimate by samples.
  uint64_t planes_bytes = 0;
  uint64_t zero_count = 0;
  uint64_t nan_count = 0;
  uint64_t positive_infinity_count = 0;
  uint64_t negative_infinity_count = 0;
  // Complex numbers with an infinite part and no NaN.
  uint64_t complex_infinity_count = 0;
  uint64_t finite_count = 0;
  // Exact: an int64, a uint64 or a float64. Absent when nothing is finite.
  std::optional<Scalar> min;
  std::optional<Scalar> max;
  std::optional<Scalar> absmax;  // uint64 or float64
  // NaN when nothing is finite.
  double mean = 0;
  double mean_imaginary = 0;  // complex tensors
  double std = 0;             // of the whole, not of a sample (ddof = 0)
  double l2_norm = 0;         // 0 when nothing is finite
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
  // Sums over the leaves.
  uint64_t element_count = 0;
  uint64_t bytes = 0;
  uint64_t planes_bytes = 0;
  uint64_t zero_count = 0;
  uint64_t nan_count = 0;
  uint64_t infinity_count = 0;
  uint64_t non_finite_leaf_count = 0;
  uint64_t unreadable_count = 0;
  double l2_norm = 0;  // of all elements together
  double absmax = 0;
  Stats stats;
};

Result<StatsResult> ComputeStats(const Checkpoint& checkpoint,
                                 const StatsOptions& options = {});

}  // namespace holdfast
