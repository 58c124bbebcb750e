#include "tools/compare/slab_reader.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "ground/base/bytes.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

constexpr size_t kSlabAlignment = 64;
// The maximum number of small tensors in a batch, so that none of them waits
// long for its turn.
constexpr size_t kBatchTensorsMax = 512;

struct CutTensor {
  const SlabTensor* tensor = nullptr;
  SlabGrid grid;
  Shape shape;
  std::vector<DType> dtypes;  // one per side
  std::vector<size_t> element_bytes;

  // Returns the bytes that one side of a slab takes in the buffer.
  size_t SlabBytes(size_t side, int64_t element_count) const {
    const size_t bytes =
        static_cast<size_t>(element_count) * element_bytes[side];
    return (bytes + kSlabAlignment - 1) / kSlabAlignment * kSlabAlignment;
  }
  uint64_t DecodedBytes(int64_t element_count) const {
    uint64_t bytes = 0;
    for (const size_t each : element_bytes) {
      bytes += each * static_cast<uint64_t>(element_count);
    }
    return bytes;
  }
};

// Consecutive batches: either a single batch of several small tensors, or one
// batch for each slab of a large tensor.
struct Segment {
  size_t first_tensor = 0;
  size_t tensor_count = 0;
  uint64_t first_batch = 0;
};

class SlabReader {
 public:
  SlabReader(const SlabWork& work, const RunOptions& options)
      : work_(work),
        options_(options),
        sizes_(SlabSizesOf(options.memory_bytes)),
        run_(options),
        buffers_(run_.executor().thread_count()) {}

  Status Read(const std::vector<SlabTensor>& tensors, std::string_view phase,
              Stats& stats) {
    Stopwatch watch;
    failed_ = std::vector<std::atomic<bool>>(tensors.size());
    for (const SlabTensor& tensor : tensors) Cut(tensor);
    MakeSegments();
    run_.StartPhase(phase, total_bytes_);
    HF_RETURN_IF_ERROR(run_.executor().ParallelFor(
        batch_count_,
        [&](size_t batch, int worker) { return RunBatch(batch, worker); },
        &run_.cancel()));
    stats.transfer_seconds += watch.Lap();
    stats.decoded_bytes += decoded_bytes_;
    stats.stored_bytes += stored_bytes_;
    stats.chunk_count += chunk_count_;
    stats.memory_bytes_peak =
        std::max<uint64_t>(stats.memory_bytes_peak, run_.budget().peak_bytes());
    return Status();
  }

 private:
  void Cut(const SlabTensor& tensor) {
    CutTensor cut;
    cut.tensor = &tensor;
    std::vector<Shape> chunks;
    for (const SlabSide& side : tensor.sides) {
      const LeafInfo& info = side.checkpoint->leaves()[side.leaf];
      cut.shape = info.shape;
      cut.dtypes.push_back(*info.dtype);
      cut.element_bytes.push_back(DTypeBytes(*info.dtype));
      if (!work_.ignores_chunks) chunks.push_back(info.chunk_shape);
    }
    if (!tensor.sides.empty()) {
      const size_t element_bytes =
          *std::max_element(cut.element_bytes.begin(), cut.element_bytes.end());
      cut.grid = SlabGrid(cut.shape, chunks, element_bytes, sizes_);
      total_bytes_ += cut.DecodedBytes(ElementCount(cut.shape));
    }
    tensors_.push_back(std::move(cut));
  }

  void MakeSegments() {
    uint64_t bytes = 0;
    bool is_open = false;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const CutTensor& cut = tensors_[i];
      if (cut.grid.count() == 0) continue;
      const auto count = static_cast<int64_t>(cut.grid.element_count_max());
      const bool joins = is_open && cut.grid.count() == 1 &&
                         i - segments_.back().first_tensor < kBatchTensorsMax &&
                         bytes + cut.DecodedBytes(count) <= sizes_.target_bytes;
      if (!joins) {
        segments_.push_back({i, 0, batch_count_});
        batch_count_ += cut.grid.count();
        bytes = 0;
      }
      is_open = cut.grid.count() == 1;
      bytes += cut.DecodedBytes(count);
      segments_.back().tensor_count = i + 1 - segments_.back().first_tensor;
    }
  }

  std::vector<Slab> SlabsOf(uint64_t batch) const {
    const auto after =
        std::upper_bound(segments_.begin(), segments_.end(), batch,
                         [](uint64_t number, const Segment& segment) {
                           return number < segment.first_batch;
                         });
    const Segment& segment = *(after - 1);
    std::vector<Slab> slabs;
    for (size_t i = 0; i < segment.tensor_count; ++i) {
      const size_t tensor = segment.first_tensor + i;
      const SlabGrid& grid = tensors_[tensor].grid;
      if (grid.count() == 0) continue;
      const uint64_t number = batch - segment.first_batch;
      slabs.push_back({tensor, number, grid.At(number)});
    }
    return slabs;
  }

  Status RunBatch(uint64_t batch, int worker) {
    std::vector<Slab> slabs = SlabsOf(batch);
    std::erase_if(slabs, [&](const Slab& slab) {
      return failed_[slab.tensor].load(std::memory_order_relaxed);
    });
    Status status = RunSlabs(slabs, worker);
    if (status.ok() || run_.cancel().cancelled()) return status;
    // The batch failed: read the slabs one by one to find the leaf that caused
    // it.
    for (Slab& slab : slabs) {
      std::vector<Slab> alone{std::move(slab)};
      if (slabs.size() > 1) status = RunSlabs(alone, worker);
      if (run_.cancel().cancelled()) return status;
      if (!status.ok()) Fail(alone[0].tensor, status);
    }
    return Status();
  }

  // Reads the slabs of all sides, then passes them on.
  Status RunSlabs(std::vector<Slab>& slabs, int worker) {
    uint64_t side_bytes[2] = {0, 0};
    uint64_t decoded_bytes = 0;
    for (const Slab& slab : slabs) {
      const CutTensor& cut = tensors_[slab.tensor];
      for (size_t side = 0; side < cut.dtypes.size(); ++side) {
        side_bytes[side] += cut.SlabBytes(side, slab.element_count());
      }
      decoded_bytes += cut.DecodedBytes(slab.element_count());
    }
    const uint64_t slab_bytes = side_bytes[0] + side_bytes[1];
    if (slab_bytes == 0) return Status();
    // The sides are read one after the other, so memory for one reader is
    // enough.
    const uint64_t reader_bytes = std::max(side_bytes[0], side_bytes[1]);
    const ByteBudget::Lease lease =
        Lease(slab_bytes + reader_bytes, buffers_[worker]);
    HF_RETURN_IF_ERROR(run_.cancel().Check());
    Buffer& buffer = buffers_[worker];
    buffer.Reserve(slab_bytes);
    HF_RETURN_IF_ERROR(ReadSides(slabs, buffer.data(), reader_bytes));
    for (const Slab& slab : slabs) work_.add(slab);
    decoded_bytes_ += decoded_bytes;
    run_.AddDone(decoded_bytes);
    if (buffer.size() > 2 * sizes_.target_bytes) buffer = Buffer();
    return Status();
  }

  // Waits for the lease without holding `buffer`, whose memory other threads
  // may be waiting for.
  ByteBudget::Lease Lease(uint64_t bytes, Buffer& buffer) {
    if (auto lease = run_.budget().TryAcquire(bytes)) return std::move(*lease);
    buffer = Buffer();
    return run_.budget().Acquire(bytes);
  }

  Status ReadSides(std::vector<Slab>& slabs, char* memory,
                   uint64_t reader_bytes) {
    // The sides of all slabs may come from more than two checkpoints.
    std::vector<std::pair<const Checkpoint*, std::vector<ReadRequest>>> reads;
    for (size_t side = 0; side < 2; ++side) {
      for (Slab& slab : slabs) {
        const CutTensor& cut = tensors_[slab.tensor];
        if (side >= cut.dtypes.size()) continue;
        const SlabSide& from = cut.tensor->sides[side];
        if (reads.empty() || reads.back().first != from.checkpoint) {
          reads.push_back({from.checkpoint, {}});
        }
        ArrayView target{
            cut.dtypes[side], memory, slab.box.shape,
            ContiguousStrides(slab.box.shape, cut.element_bytes[side])};
        reads.back().second.push_back(
            {from.leaf, slab.box.origin, std::move(target)});
        slab.elements[side] = memory;
        memory += cut.SlabBytes(side, slab.element_count());
      }
    }
    RunOptions options;
    options.threads = 1;
    options.memory_bytes = reader_bytes;
    options.cancel = options_.cancel;
    for (const auto& [checkpoint, requests] : reads) {
      HF_ASSIGN_OR_RETURN(const Stats stats,
                          checkpoint->ReadInto(requests, options));
      stored_bytes_ += stats.stored_bytes;
      chunk_count_ += stats.chunk_count;
    }
    return Status();
  }

  void Fail(size_t tensor, const Status& status) {
    if (failed_[tensor].exchange(true)) return;
    const std::lock_guard lock(fail_mutex_);
    work_.fail(tensor, status);
  }

  const SlabWork& work_;
  const RunOptions& options_;
  const SlabSizes sizes_;
  Run run_;
  std::vector<Buffer> buffers_;  // one per worker
  std::vector<CutTensor> tensors_;
  std::vector<Segment> segments_;
  uint64_t batch_count_ = 0;
  uint64_t total_bytes_ = 0;
  std::vector<std::atomic<bool>> failed_;
  std::mutex fail_mutex_;
  std::atomic<uint64_t> decoded_bytes_{0};
  std::atomic<uint64_t> stored_bytes_{0};
  std::atomic<uint64_t> chunk_count_{0};
};

}  // namespace

Status ReadSlabs(const std::vector<SlabTensor>& tensors, const SlabWork& work,
                 const RunOptions& options, std::string_view phase,
                 Stats& stats) {
  return SlabReader(work, options).Read(tensors, phase, stats);
}

}  // namespace holdfast
