#include "engine/restore/locate.h"

#include <algorithm>
#include <optional>

#include "engine/restore/extent_read.h"
#include "formats/zarr/read_chunk.h"
#include "ground/base/status_macros.h"
#include "ground/record/recorder.h"
#include "ground/tensor/grid.h"

namespace holdfast {
namespace {

// If a chunk is no larger than this, the size of its file is not looked up.
constexpr size_t kSmallChunkBytes = 1 << 20;

// Returns true if a chunk can be read in pieces: no list of checksums needs it
// as a whole, and no server would make each piece a request of its own.
bool CanCut(const PlannedChunk& chunk, const RestoreTarget& target) {
  return target.home->byte_check() == ByteCheck::kByCodecAlone &&
         chunk.location.store->requests_in_flight() <= 1;
}

// Raw parts larger than this are cut, so that many threads share them.
constexpr uint64_t kRawPieceBytes = uint64_t{8} << 20;

// Returns whether to read only the part of the chunk that contains all wanted
// elements, instead of the stored chunk. This is better if it reads less. It is
// also better for a large raw chunk, even if all of it is wanted: a file is
// then read straight into its target, and a range of a file by several threads.
// Smaller chunks are read completely, so that they can be joined with their
// neighbors.
bool ReadsPart(const PlannedChunk& chunk, const RestoreTarget& target,
               const Box& wanted) {
  const zarr::ChunkFormat& format = target.array.layout->format;
  if (chunk.is_missing || chunk.location.inline_value) return false;
  if (wanted != chunk.box) {
    return format.is_raw ||
           (format.shard != nullptr && format.shard->entry_count() > 1);
  }
  const bool is_file = chunk.location.byte_count == kToEnd;
  const bool has_size =
      is_file || chunk.location.byte_count == target.array.layout->chunk_bytes;
  return format.is_raw && has_size && CanCut(chunk, target) &&
         BytesOf(wanted, target.array) >
             (is_file ? kSmallChunkBytes : kRawPieceBytes);
}

Result<PlannedChunk> LocateChunk(const RestoreTarget& target, uint32_t number,
                                 const Shape& chunk_index) {
  const ArrayLayout& layout = *target.array.layout;
  PlannedChunk chunk;
  chunk.group = number;
  chunk.box = layout.grid.ChunkBox(chunk_index);
  const std::string key = ChunkKeyOf(target.array, chunk.box);
  Result<ObjectLocation> location = target.home->array_store().Locate(key);
  if (location.ok()) {
    chunk.location = std::move(location).value();
    return chunk;
  }
  if (location.status().code() != StatusCode::kNotFound) {
    return location.status().WithContext("leaf " +
                                         std::string(target.array.name));
  }
  if (target.home->refuses_missing_chunks()) {
    const std::optional<Status> words =
        target.home->Explain(target.array, key, location.status());
    if (words) return *words;
    return NotFoundError("leaf " + std::string(target.array.name) + ": chunk " +
                         BoxToString(chunk.box) + " is missing: " +
                         std::string(location.status().message()));
  }
  chunk.is_missing = true;
  return chunk;
}

// Checks that a chunk's stored bytes can account for its size, which comes from
// a file, before memory is allocated for it.
Status CheckStoredSize(const PlannedChunk& chunk, const RestoreTarget& target) {
  const ArrayLayout& layout = *target.array.layout;
  // A shard may leave out chunks that equal the fill value.
  const bool may_be_sparse =
      layout.format.shard != nullptr && !target.home->refuses_missing_chunks();
  if (chunk.is_missing || may_be_sparse ||
      layout.chunk_bytes <= kSmallChunkBytes) {
    return Status();
  }
  uint64_t stored_bytes = chunk.location.byte_count;
  if (chunk.location.inline_value) {
    stored_bytes = chunk.location.inline_value->size();
  } else if (stored_bytes == kToEnd) {
    // One request per chunk would cost more than it saves; the decoder checks.
    if (chunk.location.store->requests_in_flight() > 1) return Status();
    const Result<ObjectInfo> info =
        chunk.location.store->Stat(chunk.location.key);
    if (!info.ok()) return Status();  // absent: noticed when it is read
    stored_bytes = info->byte_count;
  }
  return zarr::CheckExpansion(stored_bytes, layout.chunk_bytes,
                              layout.codec_count);
}

// Finds the parts of extents that one target needs from a raw array. A part is
// what one worker reads at a time: large enough that the cost of a call does
// not matter, and small enough that all workers are busy.
class RawLocator {
 public:
  RawLocator(const RestoreTarget& target, uint32_t target_number,
             uint32_t group_number, uint64_t part_bytes,
             std::vector<PlannedChunk>& chunks)
      : target_(target),
        raw_(*target.array.raw),
        target_number_(target_number),
        group_number_(group_number),
        part_bytes_(part_bytes),
        chunks_(chunks) {}

  Status Locate() {
    const Box box = BoxOfTarget(target_);
    if (raw_.reader != nullptr) {
      Add(box).part_bytes = BytesOf(box, target_.array);
      return Status();
    }
    // Extents are disjoint, so a count shows whether elements are missing.
    int64_t found_count = 0;
    raw_.ForEachExtent(box, [&](const Extent& extent, const Box& common) {
      found_count += ElementCount(common.shape);
      AddParts(extent, common);
    });
    const int64_t missing_count = ElementCount(box.shape) - found_count;
    if (missing_count == 0) return Status();
    return DataLossError("leaf " + std::string(target_.array.name) + ": " +
                         std::to_string(missing_count) + " elements of " +
                         BoxToString(box) + " are in no file");
  }

 private:
  PlannedChunk& Add(Box box) {
    PlannedChunk& chunk = chunks_.emplace_back();
    chunk.group = group_number_;
    chunk.raw_target = target_number_;
    chunk.box = std::move(box);
    chunk.location.store = &target_.home->array_store();
    chunk.location.byte_count = kToEnd;
    return chunk;
  }

  void AddParts(const Extent& extent, const Box& common) {
    const size_t element_bytes = DTypeBytes(raw_.dtype);
    for (Box& box : CutBox(common, ExtentStrides(extent, element_bytes),
                           element_bytes, part_bytes_)) {
      const uint64_t byte_count = BytesOf(box, target_.array);
      const bool is_plain = IsPlainRange(extent, raw_.dtype, box);
      PlannedChunk& chunk = Add(std::move(box));
      chunk.extent = &extent;
      chunk.location.key = extent.file;
      chunk.location.offset = OffsetInFile(extent, raw_.dtype, chunk.box);
      chunk.location.byte_count = byte_count;
      if (!is_plain) chunk.part_bytes = byte_count;
    }
  }

  const RestoreTarget& target_;
  const RawArray& raw_;
  const uint32_t target_number_;
  const uint32_t group_number_;
  const uint64_t part_bytes_;
  std::vector<PlannedChunk>& chunks_;
};

// Finds the chunks of one group of targets.
class Locator {
 public:
  Locator(const std::vector<RestoreTarget>& targets, const TargetGroup& group,
          uint32_t group_number, const CancelToken& cancel,
          std::vector<PlannedChunk>& chunks)
      : targets_(targets),
        group_(group),
        group_number_(group_number),
        cancel_(cancel),
        target_(targets[group.first]),
        grid_(target_.array.layout->grid),
        chunks_(chunks) {}

  Status Locate() {
    if (group_.boxes != nullptr) return LocateShared();
    const Box box = BoxOfTarget(target_);
    HF_RETURN_IF_ERROR(
        CheckChunkCount(target_.array.name, CountChunks(grid_, box)));
    return ForEachChunk(grid_, box,
                        [&](const Shape& index) { return Add(index); });
  }

 private:
  // Locates the chunks of several targets. A chunk that several of them need is
  // located once.
  Status LocateShared() {
    HF_ASSIGN_OR_RETURN(
        const std::vector<int64_t> numbers,
        WantedChunks(target_.array.name, grid_, *group_.boxes, cancel_));
    for (const int64_t number : numbers) {
      HF_RETURN_IF_ERROR(Add(grid_.ChunkIndex(number)));
    }
    return Status();
  }

  Status Add(const Shape& index) {
    HF_RETURN_IF_ERROR(cancel_.Check());
    HF_ASSIGN_OR_RETURN(PlannedChunk chunk,
                        LocateChunk(target_, group_number_, index));
    const Status size_status = CheckStoredSize(chunk, target_);
    if (!size_status.ok()) {
      return ChunkFailure(chunk, target_, size_status, /*adds_place=*/true);
    }
    const bool is_whole = group_.boxes == nullptr && target_.origin.empty();
    const Box wanted = is_whole ? chunk.box : WantedBox(chunk.box);
    if (!ReadsPart(chunk, target_, wanted)) {
      chunks_.push_back(std::move(chunk));
      return Status();
    }
    chunk.part_bytes = BytesOf(wanted, target_.array);
    const bool is_raw = target_.array.layout->format.is_raw;
    if (!is_raw || chunk.part_bytes <= kRawPieceBytes ||
        !CanCut(chunk, target_)) {
      chunks_.push_back(std::move(chunk));
      return Status();
    }
    for (Box& piece :
         RowPieces(wanted, DTypeBytes(target_.array.dtype()), kRawPieceBytes)) {
      PlannedChunk& part = chunks_.emplace_back(chunk);
      part.box = std::move(piece);
      part.part_bytes = BytesOf(part.box, target_.array);
    }
    return Status();
  }

  // Returns the smallest box that contains what the targets want of the chunk.
  // REQUIRES: some target overlaps the chunk.
  Box WantedBox(const Box& chunk_box) const {
    std::optional<Box> wanted;
    ForEachUse(targets_, group_, chunk_box,
               [&](const RestoreTarget&, const Box& common) {
                 wanted = wanted ? Hull(*wanted, common) : common;
               });
    return *std::move(wanted);
  }

  const std::vector<RestoreTarget>& targets_;
  const TargetGroup& group_;
  const uint32_t group_number_;
  const CancelToken& cancel_;
  const RestoreTarget& target_;
  const ChunkGrid& grid_;
  std::vector<PlannedChunk>& chunks_;
};

}  // namespace

Status CheckChunkCount(std::string_view leaf_name, int64_t chunk_count) {
  if (chunk_count <= kChunkCountMax) return Status();
  return ResourceExhaustedError(
      "leaf " + std::string(leaf_name) +
      ": too many chunks to read at once (got " + std::to_string(chunk_count) +
      ", want at most " + std::to_string(kChunkCountMax) +
      "); read it in slices");
}

Result<std::vector<int64_t>> WantedChunks(std::string_view leaf_name,
                                          const ChunkGrid& grid,
                                          const BoxIndex& boxes,
                                          const CancelToken& cancel) {
  constexpr size_t kUniqueSlack = 1 << 16;
  const Shape counts = grid.ChunkCounts();
  std::vector<int64_t> numbers;
  size_t unique_count = 0;
  const auto make_unique = [&]() -> Status {
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    unique_count = numbers.size();
    return CheckChunkCount(leaf_name, static_cast<int64_t>(unique_count));
  };
  for (size_t i = 0; i < boxes.size(); ++i) {
    const Box& box = boxes.box(i);
    HF_RETURN_IF_ERROR(CheckChunkCount(leaf_name, CountChunks(grid, box)));
    HF_RETURN_IF_ERROR(ForEachChunk(grid, box, [&](const Shape& index) {
      int64_t number = 0;
      for (size_t d = 0; d < index.size(); ++d) {
        number = number * counts[d] + index[d];
      }
      numbers.push_back(number);
      return cancel.Check();
    }));
    // Thus many targets that want the complete array use no more memory than
    // one.
    if (numbers.size() > 2 * unique_count + kUniqueSlack) {
      HF_RETURN_IF_ERROR(make_unique());
    }
  }
  HF_RETURN_IF_ERROR(make_unique());
  return numbers;
}

namespace {

Status LocateGroup(const std::vector<RestoreTarget>& targets,
                   const TargetGroup& group, uint32_t group_number, Run& run,
                   std::vector<PlannedChunk>& chunks) {
  if (targets[group.first].array.raw == nullptr) {
    return Locator(targets, group, group_number, run.cancel(), chunks).Locate();
  }
  for (size_t i = group.first; i < group.last; ++i) {
    HF_RETURN_IF_ERROR(RawLocator(targets[i], static_cast<uint32_t>(i),
                                  group_number, RawPartBytes(run), chunks)
                           .Locate());
  }
  return Status();
}

}  // namespace

uint64_t RawPartBytes(Run& run) {
  const uint64_t budget_bytes = run.budget().bytes_max();
  if (budget_bytes == 0) return kRawPieceBytes;
  const uint64_t share_bytes =
      budget_bytes / (2 * run.executor().thread_count());
  return std::clamp<uint64_t>(share_bytes, 16, kRawPieceBytes);
}

Result<RestorePlan> PlanRestore(std::vector<RestoreTarget> targets, Run& run) {
  const PhaseScope scope(Phase::kPlan);
  std::vector<TargetGroup> groups = GroupTargets(targets);
  std::vector<std::vector<PlannedChunk>> parts(groups.size());
  HF_RETURN_IF_ERROR(run.executor().ParallelFor(
      groups.size(),
      [&](size_t i, int) {
        return LocateGroup(targets, groups[i], static_cast<uint32_t>(i), run,
                           parts[i]);
      },
      &run.cancel()));
  std::vector<PlannedChunk> chunks;
  // The chunks are in the order of the groups, whichever threads located them.
  for (std::vector<PlannedChunk>& part : parts) {
    std::move(part.begin(), part.end(), std::back_inserter(chunks));
  }
  RestorePlan plan = JoinChunks(std::move(chunks));
  plan.targets = std::move(targets);
  plan.groups = std::move(groups);
  return plan;
}

}  // namespace holdfast
