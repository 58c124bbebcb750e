#include "tools/compare/merged_checkpoint.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <utility>

#include "ground/base/bytes.h"
#include "ground/base/status_macros.h"
#include "ground/tensor/copy.h"
#include "tools/compare/load_numbers.h"
#include "tools/compare/slabs.h"
#include "tools/compare/store_numbers.h"

namespace holdfast {
namespace {

// Adds weight * numbers to `sum`, or sets `sum` if `is_first`.
void AddWeighted(const double* numbers, size_t count, double weight,
                 bool is_first, double* sum) {
  // The first product is not added to 0, which would lose the sign of -0.0.
  if (is_first) {
    for (size_t i = 0; i < count; ++i) sum[i] = weight * numbers[i];
    return;
  }
  for (size_t i = 0; i < count; ++i) sum[i] += weight * numbers[i];
}

// A part of a request, since a mean is computed slab by slab.
struct AveragePiece {
  const ReadRequest* request = nullptr;
  Box box;  // in the target
};

Array ViewAsArray(DType dtype, const Shape& shape, const char* data) {
  return Array::Borrow(
      {dtype, data, shape, ContiguousStrides(shape, DTypeBytes(dtype))}, {});
}

}  // namespace

MergedCheckpoint::MergedCheckpoint(std::vector<MergePart> parts,
                                   std::vector<MergedLeaf> leaves,
                                   std::vector<double> weights)
    : parts_(std::move(parts)),
      leaves_(std::move(leaves)),
      weights_(std::move(weights)) {
  for (const MergedLeaf& leaf : leaves_) infos_.push_back(leaf.info);
  const CheckpointInfo& first = parts_[0].checkpoint->info();
  info_.format = first.format;
  info_.use_ocdbt = first.use_ocdbt;
  info_.zarr_format = first.zarr_format;
  for (const MergePart& part : parts_) {
    info_.path +=
        (info_.path.empty() ? "merge of " : " and ") + PartLabel(part);
  }
}

Result<Stats> MergedCheckpoint::DoReadInto(
    const std::vector<ReadRequest>& requests, const RunOptions& run) const {
  std::vector<ReadRequest> plain, averages;
  for (const ReadRequest& request : requests) {
    const bool is_average = leaves_[request.leaf].is_average;
    (is_average ? averages : plain).push_back(request);
  }
  HF_ASSIGN_OR_RETURN(Stats stats, ReadPlain(plain, run));
  if (!averages.empty()) {
    HF_ASSIGN_OR_RETURN(const Stats more, ReadAverages(averages, run));
    stats.Add(more);
  }
  return stats;
}

Result<Stats> MergedCheckpoint::ReadPlain(
    const std::vector<ReadRequest>& requests, const RunOptions& run) const {
  std::vector<std::vector<ReadRequest>> by_part(parts_.size());
  for (const ReadRequest& request : requests) {
    const MergeOrigin& from = leaves_[request.leaf].origins[0];
    by_part[from.part].push_back({from.leaf, request.origin, request.target});
  }
  Stats stats;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (by_part[i].empty()) continue;
    HF_ASSIGN_OR_RETURN(const Stats one,
                        parts_[i].checkpoint->ReadInto(by_part[i], run));
    stats.Add(one);
  }
  return stats;
}

Result<Stats> MergedCheckpoint::ReadAverages(
    const std::vector<ReadRequest>& requests, const RunOptions& options) const {
  Stopwatch watch;
  Run run(options);
  // Memory is needed for the sum, the elements of one part, and its reader's
  // buffers.
  const SlabSizes sizes = SlabSizesOf(options.memory_bytes);
  std::vector<AveragePiece> pieces;
  for (const ReadRequest& request : requests) {
    const MergedLeaf& leaf = leaves_[request.leaf];
    std::vector<Shape> chunks;
    for (const MergeOrigin& origin : leaf.origins) {
      chunks.push_back(PartOf(origin).leaves()[origin.leaf].chunk_shape);
    }
    const SlabGrid grid(request.target.shape, chunks,
                        sizeof(double) * PartsOf(*leaf.info.dtype), sizes);
    for (uint64_t i = 0; i < grid.count(); ++i) {
      pieces.push_back({&request, grid.At(i)});
    }
  }
  std::mutex mutex;
  Stats stats;
  HF_RETURN_IF_ERROR(run.executor().ParallelFor(
      pieces.size(),
      [&](size_t i, int) -> Status {
        const auto& [request, box] = pieces[i];
        const uint64_t bytes = static_cast<uint64_t>(ElementCount(box.shape)) *
                               sizeof(double) *
                               PartsOf(*infos_[request->leaf].dtype);
        // One share is for the sum, one for a part's elements, one for its
        // reader.
        const auto lease = run.budget().Acquire(3 * bytes);
        RunOptions read;
        // The pieces already keep all threads busy.
        read.threads = 1;
        read.memory_bytes = bytes;
        read.cancel = options.cancel;
        Stats mine;
        HF_RETURN_IF_ERROR(
            ReadAverage(request->leaf, Absolute(box, request->origin),
                        Subview(request->target, box), read, mine));
        const std::lock_guard lock(mutex);
        stats.Add(mine);
        return Status();
      },
      &run.cancel()));
  stats.plan_seconds = 0;
  stats.transfer_seconds = stats.total_seconds = watch.Lap();
  return stats;
}

Status MergedCheckpoint::ReadAverage(size_t leaf, const Box& box,
                                     const ArrayView& target,
                                     const RunOptions& read,
                                     Stats& stats) const {
  const MergedLeaf& merged = leaves_[leaf];
  const DType dtype = *merged.info.dtype;
  const auto count = static_cast<size_t>(ElementCount(box.shape));
  const size_t number_count = count * PartsOf(dtype);
  constexpr size_t kBlock = 512;
  double block[2 * kBlock];
  Buffer sum(number_count * sizeof(double));
  auto* const sums = reinterpret_cast<double*>(sum.data());
  Buffer elements(number_count * sizeof(double));
  double weight_sum = 0;
  for (size_t i = 0; i < merged.origins.size(); ++i) {
    const MergeOrigin& from = merged.origins[i];
    const DType stored = *PartOf(from).leaves()[from.leaf].dtype;
    const ArrayView view{stored, elements.data(), box.shape,
                         ContiguousStrides(box.shape, DTypeBytes(stored))};
    HF_ASSIGN_OR_RETURN(
        const Stats one,
        PartOf(from).ReadInto({{from.leaf, box.origin, view}}, read));
    stats.Add(one);
    for (size_t first = 0; first < count; first += kBlock) {
      const size_t now = std::min(kBlock, count - first);
      LoadDoubles(stored, elements.data() + first * DTypeBytes(stored), now,
                  block);
      AddWeighted(block, now * PartsOf(dtype), weights_[from.part], i == 0,
                  sums + first * PartsOf(dtype));
    }
    weight_sum += weights_[from.part];
  }
  // The sum is divided at the end, not each weight, so that one rounding is
  // enough.
  for (size_t i = 0; i < number_count; ++i) sums[i] /= weight_sum;
  StoreDoubles(dtype, sums, count, elements.data());
  const Array mean = ViewAsArray(dtype, box.shape, elements.data());
  ConvertStrided(mean.view(), target);
  return Status();
}

Result<std::string> MergedCheckpoint::DoReadText(size_t leaf) const {
  const MergeOrigin& from = leaves_[leaf].origins[0];
  return PartOf(from).ReadText(from.leaf);
}

}  // namespace holdfast
