#include "tools/convert/chunk_feed.h"

#include <algorithm>
#include <utility>

#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/base/xxh64.h"
#include "ground/tensor/copy.h"
#include "ground/tensor/grid.h"

namespace holdfast {
namespace {

ArrayView ViewOf(Buffer& buffer, const FeedUnit& unit) {
  return {unit.dtype, buffer.data(), unit.box.shape,
          ContiguousStrides(unit.box.shape, DTypeBytes(unit.dtype))};
}

}  // namespace

void AppendPieces(const FeedUnit& unit, uint64_t bytes_max,
                  std::vector<FeedUnit>& units) {
  if (unit.byte_count() <= bytes_max) {
    units.push_back(unit);
    return;
  }
  for (Box& box : RowPieces(unit.box, DTypeBytes(unit.dtype), bytes_max)) {
    units.push_back({unit.leaf, unit.dtype, std::move(box)});
  }
}

uint64_t ElementsHash(std::string_view elements) {
  Xxh64 hash;
  hash.Update(elements);
  return hash.Digest();
}

ChunkFeed::ChunkFeed(const Checkpoint& source, std::vector<FeedUnit> units,
                     const FeedOptions& options)
    : source_(source),
      units_(std::move(units)),
      options_(options),
      run_(options.read),
      hashes_(units_.size()),
      waiting_(units_.size()),
      is_passed_over_(units_.size()) {
  MakeBatches();
  IndexUnits();
}

void ChunkFeed::MakeBatches() {
  // A batch gets half of the budget, so that the next one can be read while it
  // is consumed.
  const uint64_t batch_bytes_max = options_.bytes_max / 2;
  for (size_t i = 0; i < units_.size(); ++i) {
    const uint64_t byte_count = units_[i].byte_count();
    if (batches_.empty() ||
        batches_.back().byte_count + byte_count > batch_bytes_max) {
      Batch& batch = batches_.emplace_back();
      batch.first = i;
    }
    batches_.back().last = i + 1;
    batches_.back().byte_count += byte_count;
    batch_of_unit_.push_back(batches_.size() - 1);
  }
}

void ChunkFeed::IndexUnits() {
  std::unordered_map<size_t, std::vector<Box>> boxes;
  for (size_t i = 0; i < units_.size(); ++i) {
    leaves_[units_[i].leaf].units.push_back(i);
    boxes[units_[i].leaf].push_back(units_[i].box);
  }
  for (auto& [leaf, units] : leaves_) {
    units.index = std::make_unique<BoxIndex>(std::move(boxes[leaf]));
  }
}

Status ChunkFeed::Read(size_t leaf, const Shape& origin,
                       const ArrayView& target) {
  const Box box{origin, target.shape};
  struct Part {
    size_t unit;
    Box common;
  };
  std::vector<Part> parts;
  int64_t element_count = 0;
  const auto found = leaves_.find(leaf);
  if (found != leaves_.end()) {
    found->second.index->ForEachOverlap(box, [&](size_t i, const Box& common) {
      parts.push_back({found->second.units[i], common});
      element_count += ElementCount(common.shape);
    });
  }
  if (element_count != ElementCount(box.shape)) {
    return ReadAlone(leaf, origin, target);
  }
  // Sort by batch: an earlier batch must be consumed, and its memory freed,
  // before a later batch is loaded.
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.unit < b.unit; });
  for (const Part& part : parts) {
    const ArrayView part_target =
        Subview(target, Relative(part.common, origin));
    const int64_t part_count = ElementCount(part.common.shape);
    HF_ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> elements,
                        Take(part.unit, part_count));
    if (elements == nullptr) {
      HF_RETURN_IF_ERROR(ReadAlone(leaf, part.common.origin, part_target));
      continue;
    }
    const FeedUnit& unit = units_[part.unit];
    CopyStrided(Subview(ConstArrayView(ViewOf(*elements, unit)),
                        Relative(part.common, unit.box.origin)),
                part_target);
    GiveBack(part.unit, part_count);
  }
  return Status();
}

Status ChunkFeed::Use(
    size_t unit, const std::function<Status(std::string_view elements)>& fn) {
  const FeedUnit& wanted = units_[unit];
  const int64_t element_count = ElementCount(wanted.box.shape);
  HF_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> elements,
                      Take(unit, element_count));
  if (elements != nullptr) {
    const Status used = fn({elements->data(), wanted.byte_count()});
    elements.reset();
    GiveBack(unit, element_count);
    return used;
  }
  const std::shared_ptr<Buffer> own = pool_.Get(wanted.byte_count());
  if (own == nullptr) {
    return ResourceExhaustedError("no memory for a chunk of " +
                                  std::to_string(wanted.byte_count()) +
                                  " bytes");
  }
  HF_RETURN_IF_ERROR(
      ReadAlone(wanted.leaf, wanted.box.origin, ViewOf(*own, wanted)));
  hashes_[unit] = ElementsHash({own->data(), wanted.byte_count()});
  return fn({own->data(), wanted.byte_count()});
}

Result<std::shared_ptr<Buffer>> ChunkFeed::Take(size_t unit,
                                                int64_t element_count) {
  Batch& batch = batches_[batch_of_unit_[unit]];
  std::unique_lock lock(mutex_);
  if (batch.state == BatchState::kNew && !is_passed_over_[unit]) {
    if (waiting_bytes_ + batch.byte_count > options_.bytes_max &&
        waiting_bytes_ > 0) {
      // Earlier units are still in use, so there is no memory for the batch
      // yet.
      is_passed_over_[unit] = true;
      return std::shared_ptr<Buffer>();
    }
    batch.state = BatchState::kLoading;
    waiting_bytes_ += batch.byte_count;
    waiting_bytes_peak_ = std::max(waiting_bytes_peak_, waiting_bytes_);
    lock.unlock();
    // Other threads wait for the batch's state, so it must be set even if Load
    // runs out of memory.
    const Status status = CatchBadAlloc([&] { return Load(batch); });
    lock.lock();
    batch.status = status;
    batch.state = status.ok() ? BatchState::kLoaded : BatchState::kFailed;
    loaded_.notify_all();
  }
  loaded_.wait(lock, [&] { return batch.state != BatchState::kLoading; });
  HF_RETURN_IF_ERROR(batch.status);
  const Waiting& waiting = waiting_[unit];
  // If the unit was already freed, this is a repeated request, and the caller
  // must read the elements itself.
  if (waiting.left_count < element_count) return std::shared_ptr<Buffer>();
  return waiting.elements;
}

Status ChunkFeed::Load(Batch& batch) {
  std::vector<ReadRequest> requests;
  std::vector<std::pair<size_t, std::shared_ptr<Buffer>>> buffers;
  uint64_t unused_bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = batch.first; i < batch.last; ++i) {
      if (is_passed_over_[i]) {
        unused_bytes += units_[i].byte_count();
        continue;
      }
      buffers.emplace_back(i, nullptr);
    }
    waiting_bytes_ -= unused_bytes;
  }
  for (auto& [i, buffer] : buffers) {
    const FeedUnit& unit = units_[i];
    buffer = pool_.Get(unit.byte_count());
    if (buffer == nullptr) {
      return ResourceExhaustedError("no memory for a chunk of " +
                                    std::to_string(unit.byte_count()) +
                                    " bytes");
    }
    requests.push_back({unit.leaf, unit.box.origin, ViewOf(*buffer, unit)});
  }
  HF_ASSIGN_OR_RETURN(const Stats stats,
                      source_.ReadInto(requests, options_.read));
  HF_RETURN_IF_ERROR(run_.executor().ParallelFor(
      buffers.size(),
      [&](size_t item, int) -> Status {
        const auto& [i, buffer] = buffers[item];
        hashes_[i] = ElementsHash({buffer->data(), units_[i].byte_count()});
        return Status();
      },
      &run_.cancel()));
  const std::lock_guard lock(mutex_);
  stored_bytes_ += stats.stored_bytes;
  for (auto& [i, buffer] : buffers) {
    waiting_[i] = {std::move(buffer), ElementCount(units_[i].box.shape)};
  }
  return Status();
}

void ChunkFeed::GiveBack(size_t unit, int64_t element_count) {
  const std::lock_guard lock(mutex_);
  Waiting& waiting = waiting_[unit];
  if (waiting.left_count == 0) return;  // requested more than once
  waiting.left_count = std::max<int64_t>(0, waiting.left_count - element_count);
  if (waiting.left_count > 0) return;
  waiting.elements.reset();
  waiting_bytes_ -= units_[unit].byte_count();
}

Status ChunkFeed::ReadAlone(size_t leaf, const Shape& origin,
                            const ArrayView& target) {
  RunOptions run = options_.read;
  run.threads = 1;
  HF_ASSIGN_OR_RETURN(const Stats stats,
                      source_.ReadInto({{leaf, origin, target}}, run));
  const std::lock_guard lock(mutex_);
  stored_bytes_ += stats.stored_bytes;
  return Status();
}

uint64_t ChunkFeed::stored_bytes() const {
  const std::lock_guard lock(mutex_);
  return stored_bytes_;
}

uint64_t ChunkFeed::waiting_bytes_peak() const {
  const std::lock_guard lock(mutex_);
  return waiting_bytes_peak_;
}

}  // namespace holdfast
