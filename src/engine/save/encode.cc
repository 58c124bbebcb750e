#include "engine/save/encode.h"

#include <atomic>
#include <mutex>

#include "engine/restore/array_index.h"
#include "formats/zarr/format/chunk_key.h"
#include "ground/base/buffer_pool.h"
#include "ground/base/status_macros.h"
#include "ground/record/recorder.h"

namespace holdfast {
namespace {

// Hands out batches in order and reserves the bytes of each from the budget in
// the same order, so that the batch that the data file waits for always has
// room.
class BatchQueue {
 public:
  BatchQueue(const SavePlan& plan, ByteBudget& budget)
      : plan_(plan), budget_(budget) {}

  // Returns the next batch, and reserves its memory as `lease`. Null if no
  // batch is left.
  const PlannedBatch* Take(ByteBudget::Lease& lease) {
    std::lock_guard lock(mutex_);
    if (next_ == plan_.batches.size()) return nullptr;
    const PlannedBatch& batch = plan_.batches[next_++];
    lease = budget_.Acquire(IsStreamed(batch) ? 2 * budget_.piece_bytes()
                                              : batch.held_bytes);
    return &batch;
  }

  // Returns whether the batch is one chunk that is written piece by piece.
  bool IsStreamed(const PlannedBatch& batch) const {
    const PlannedArray& array = plan_.arrays[batch.array];
    return batch.last - batch.first == 1 &&
           batch.first >= array.first_chunk_value() &&
           budget_.WantsPieces(batch.held_bytes) &&
           array.layout->array->format.codec->is_streamable();
  }

 private:
  const SavePlan& plan_;
  ByteBudget& budget_;
  std::mutex mutex_;
  size_t next_ = 0;
};

// The memory that the values of a batch need until they are written.
struct Held {
  ByteBudget::Lease lease;
  std::vector<std::shared_ptr<Buffer>> scratch;
};

class Encoder {
 public:
  Encoder(const SavePlan& plan, ValueSink& sink, Run& run)
      : plan_(plan),
        sink_(sink),
        run_(run),
        contexts_(run.executor().thread_count(), &run.cancel()),
        queue_(plan, run.budget()) {
    if (plan.options->fingerprints) sums_.resize(plan.arrays.size());
  }

  Status EncodeAll() {
    return run_.executor().ParallelFor(
        run_.executor().thread_count(),
        [&](size_t, int worker) {
          const OnCall on(run_.call());
          return Work(contexts_.Of(worker));
        },
        &run_.cancel());
  }

  uint64_t stored_bytes() const { return stored_bytes_; }
  // Returns the sums of plan.arrays; empty if they were not requested.
  std::vector<FingerprintSum>& sums() { return sums_; }

 private:
  // Aborts the sink unless the work ends well. Otherwise later values would
  // wait for a value that never arrives.
  class AbortUnlessDone {
   public:
    explicit AbortUnlessDone(Encoder& encoder) : encoder_(encoder) {}
    ~AbortUnlessDone() {
      if (status_.ok()) return;
      encoder_.failed_.store(true, std::memory_order_relaxed);
      encoder_.sink_.Abort(status_);
    }
    AbortUnlessDone(const AbortUnlessDone&) = delete;
    AbortUnlessDone& operator=(const AbortUnlessDone&) = delete;
    Status Done(const Status& status) { return status_ = status; }

   private:
    Encoder& encoder_;
    Status status_ = ResourceExhaustedError("out of memory");
  };

  Status Work(CodecContext& context) {
    AbortUnlessDone guard(*this);
    return guard.Done(EncodeBatches(context));
  }

  Status EncodeBatches(CodecContext& context) {
    while (!failed_.load(std::memory_order_relaxed)) {
      HF_RETURN_IF_ERROR(run_.cancel().Check());
      ByteBudget::Lease lease;
      const PlannedBatch* batch = queue_.Take(lease);
      if (batch == nullptr) break;
      // Shared with the sink: the bytes count until the data file has written
      // them, which may be long after this thread has moved on.
      const auto held = std::make_shared<Held>();
      held->lease = std::move(lease);
      const PhaseScope scope(Phase::kEncode, plan_.arrays[batch->array].name,
                             batch->byte_count);
      HF_RETURN_IF_ERROR(queue_.IsStreamed(*batch)
                             ? EncodeStreamed(*batch, context)
                             : EncodeBatch(*batch, context, held));
      context.TrimScratch(kKeptScratchBytesMax);
      run_.AddDone(batch->byte_count);
    }
    return Status();
  }

  Status EncodeStreamed(const PlannedBatch& batch, CodecContext& context) {
    const PlannedArray& array = plan_.arrays[batch.array];
    const ArrayLayout& layout = *array.layout->array;
    const Shape index = layout.grid.ChunkIndex(array.ChunkOf(batch.first));
    FingerprintSum sum;
    const ChunkElements elements =
        ElementsOf(array, layout.grid.ChunkBox(index), sum);
    const auto encode = [&](const WriteFn& write) {
      sum = SumOf(array, elements.view, layout.grid.ChunkBox(index));
      Status written;
      const WriteFn count_and_write =
          [&](std::span<const std::string_view> pieces) {
            stored_bytes_.fetch_add(TotalBytes(pieces),
                                    std::memory_order_relaxed);
            return written = write(pieces);
          };
      const Status encoded = layout.format.codec->EncodeStream(
          elements, run_.budget().piece_bytes(), count_and_write, context);
      // A failure of the sink already names its file.
      const bool is_ours = !encoded.ok() && written.ok();
      return is_ours ? encoded.WithContext("leaf " + array.name) : encoded;
    };
    HF_RETURN_IF_ERROR(sink_.PutStream(
        batch.first,
        zarr::ChunkKey(ArrayPrefix(array.name), layout.format.metadata, index),
        layout.known_by, encode));
    AddSum(array, sum);
    return Status();
  }

  // Returns the sum of the elements in the dtype to be stored; empty if sums
  // were not requested, or the elements are not in memory yet.
  FingerprintSum SumOf(const PlannedArray& array, const ConstArrayView& view,
                       const Box& box) const {
    if (sums_.empty() || view.data == nullptr) return {};
    return SumOfBox(view, box.origin, array.source.shape());
  }

  void AddSum(const PlannedArray& array, const FingerprintSum& sum) {
    if (sums_.empty()) return;
    const std::lock_guard lock(sums_mutex_);
    sums_[&array - plan_.arrays.data()] += sum;
  }

  // Returns the elements of a chunk, whose box is `box`. The array must outlive
  // the result. Elements that are copied are added to `sum`.
  ChunkElements ElementsOf(const PlannedArray& array, const Box& box,
                           FingerprintSum& sum) const {
    ChunkElements elements;
    elements.dtype = array.layout->dtype();
    elements.shape = box.shape;
    if (elements.dtype == array.source.dtype()) {
      if (auto view = array.source.Find(box)) elements.view = *std::move(view);
    }
    elements.copy = [&array, box](const Box& part, const ArrayView& target) {
      return array.source.CopyTo(Absolute(part, box.origin), target);
    };
    elements.passed = [this, &array, &sum, box](const Box& part,
                                                const ConstArrayView& view) {
      sum += SumOf(array, view, Absolute(part, box.origin));
    };
    return elements;
  }

  Status EncodeBatch(const PlannedBatch& batch, CodecContext& context,
                     const std::shared_ptr<Held>& held) {
    size_t array_index = batch.array;
    for (uint64_t value = batch.first; value < batch.last; ++value) {
      while (value >= plan_.arrays[array_index].first_value +
                          plan_.arrays[array_index].value_count()) {
        ++array_index;  // past arrays with nothing written here
      }
      HF_RETURN_IF_ERROR(
          EncodeValue(plan_.arrays[array_index], value, context, held));
    }
    return Status();
  }

  Status EncodeValue(const PlannedArray& array, uint64_t value,
                     CodecContext& context, const std::shared_ptr<Held>& held) {
    const ArrayLayout& layout = *array.layout->array;
    const std::string prefix = ArrayPrefix(array.name);
    if (value < array.first_chunk_value()) {
      const int zarr_format = layout.format.metadata.zarr_format;
      std::string key =
          prefix + (plan_.metadata_key.empty()
                        ? std::string(zarr::MetadataKey(zarr_format))
                        : plan_.metadata_key);
      EncodedChunk metadata;
      metadata.pieces.push_back(array.layout->metadata_text);
      metadata.byte_count = array.layout->metadata_text.size();
      return sink_.Put(value, std::move(key), std::move(metadata),
                       ValueKnownBy::kBlocks, held);
    }
    const Shape index = layout.grid.ChunkIndex(array.ChunkOf(value));
    std::string key = zarr::ChunkKey(prefix, layout.format.metadata, index);
    const Box box = layout.grid.ChunkBox(index);
    const Result<ConstArrayView> chunk = ViewOfChunk(array, box, *held);
    if (!chunk.ok()) return chunk.status().WithContext("leaf " + array.name);
    AddSum(array, SumOf(array, *chunk, box));
    Result<EncodedChunk> encoded = layout.format.codec->Encode(*chunk, context);
    if (!encoded.ok()) {
      return encoded.status().WithContext("leaf " + array.name);
    }
    stored_bytes_.fetch_add(encoded->byte_count, std::memory_order_relaxed);
    return sink_.Put(value, std::move(key), std::move(encoded).value(),
                     layout.known_by, held);
  }

  // Returns the elements in the dtype to be stored, in place or in scratch
  // memory.
  Result<ConstArrayView> ViewOfChunk(const PlannedArray& array, const Box& box,
                                     Held& held) {
    const DType dtype = array.layout->dtype();
    if (dtype == array.source.dtype()) {
      if (auto view = array.source.Find(box)) return *std::move(view);
    }
    const size_t byte_count = ElementCount(box.shape) * DTypeBytes(dtype);
    const auto& scratch = held.scratch.emplace_back(pool_.Get(byte_count));
    if (scratch == nullptr) {
      return ResourceExhaustedError("no memory for a chunk of " +
                                    std::to_string(byte_count) + " bytes");
    }
    const ArrayView view{dtype, scratch->data(), box.shape,
                         ContiguousStrides(box.shape, DTypeBytes(dtype))};
    HF_RETURN_IF_ERROR(array.source.CopyTo(box, view));
    return ConstArrayView(view);
  }

  const SavePlan& plan_;
  ValueSink& sink_;
  Run& run_;
  WorkerContexts contexts_;
  BufferPool pool_;
  BatchQueue queue_;
  std::atomic<bool> failed_{false};
  std::atomic<uint64_t> stored_bytes_{0};
  std::mutex sums_mutex_;
  std::vector<FingerprintSum> sums_;
};

ReferredArray Referred(const PlannedArray& array) {
  ReferredArray referred{{}, array.stored};
  const ArrayLayout& layout = *array.layout->array;
  const std::string prefix = ArrayPrefix(array.name);
  for (size_t i = 0; i < array.stored->ranges.size(); ++i) {
    referred.keys.push_back(
        zarr::ChunkKey(prefix, layout.format.metadata,
                       layout.grid.ChunkIndex(static_cast<int64_t>(i))));
  }
  return referred;
}

}  // namespace

Status EncodeValues(const SavePlan& plan, ValueSink& sink, Run& run,
                    Stats& stats, std::vector<FingerprintSum>& sums) {
  for (const PlannedArray& array : plan.arrays) {
    if (array.stored == nullptr) continue;
    HF_RETURN_IF_ERROR(sink.Refer(Referred(array)));
  }
  Encoder encoder(plan, sink, run);
  HF_RETURN_IF_ERROR(encoder.EncodeAll());
  stats.stored_bytes += encoder.stored_bytes();
  sums = std::move(encoder.sums());
  return Status();
}

}  // namespace holdfast
