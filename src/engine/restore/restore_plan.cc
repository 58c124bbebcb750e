#include "engine/restore/restore_plan.h"

#include <algorithm>
#include <tuple>

namespace holdfast {
namespace {

// Returns whether the chunk's range in a file is known, so that it can be
// joined.
bool IsRanged(const PlannedChunk& chunk) {
  return !chunk.is_missing && !chunk.location.inline_value &&
         chunk.location.byte_count != kToEnd;
}

bool ChunkLess(const PlannedChunk& a, const PlannedChunk& b) {
  const bool a_ranged = IsRanged(a), b_ranged = IsRanged(b);
  // Ranged chunks come last, sorted by place: JoinRanged joins neighbors, and
  // files are read from front to back.
  if (a_ranged != b_ranged) return b_ranged;
  if (!a_ranged) return a.group < b.group;
  return std::tie(a.location.key, a.location.offset) <
         std::tie(b.location.key, b.location.offset);
}

struct JoinLimits {
  uint64_t gap_bytes_max = kReadGapBytesMax;
  uint64_t joined_bytes_max = kJoinedReadBytesMax;
  uint64_t alone_bytes_min = kToEnd;
};

JoinLimits LimitsOf(const Store* store) {
  if (store == nullptr || store->requests_in_flight() <= 1) return {};
  return {kRemoteGapBytesMax, kRemoteJoinedBytesMax, kRemoteAloneBytesMin};
}

bool CanJoin(const PlannedRead& read, const PlannedChunk& last,
             const PlannedChunk& next, const JoinLimits& limits) {
  if (last.part_bytes > 0 || next.part_bytes > 0) return false;
  if (last.location.key != next.location.key ||
      last.location.store != next.location.store) {
    return false;
  }
  if (std::max(last.location.byte_count, next.location.byte_count) >=
      limits.alone_bytes_min) {
    return false;
  }
  const uint64_t end = read.offset + read.byte_count;
  const uint64_t next_offset = next.location.offset;
  const uint64_t next_end = next_offset + next.location.byte_count;
  return next_offset <= end + limits.gap_bytes_max && next_end >= end &&
         next_end - read.offset <= limits.joined_bytes_max;
}

bool IsObject(const PlannedChunk& chunk) {
  return !chunk.is_missing && !chunk.location.inline_value;
}

// Adds the tasks for chunks whose range is not known. A chunk with its own file
// is a task by itself; chunks that need no read share tasks.
void BatchUnranged(size_t count, RestorePlan& plan) {
  for (size_t first = 0; first < count;) {
    size_t last = first + 1;
    while (!IsObject(plan.chunks[first]) && last < count &&
           last - first < kInlineBatchCount && !IsObject(plan.chunks[last])) {
      ++last;
    }
    plan.reads.push_back({first, last, 0, 0});
    first = last;
  }
}

void JoinRanged(size_t first, RestorePlan& plan) {
  const Store* store = nullptr;
  JoinLimits limits;
  for (size_t i = first; i < plan.chunks.size(); ++i) {
    const ObjectLocation& location = plan.chunks[i].location;
    if (location.store != store) limits = LimitsOf(location.store);
    store = location.store;
    if (i > first && CanJoin(plan.reads.back(), plan.chunks[i - 1],
                             plan.chunks[i], limits)) {
      PlannedRead& read = plan.reads.back();
      read.last = i + 1;
      read.byte_count = location.offset + location.byte_count - read.offset;
      continue;
    }
    const bool is_part = plan.chunks[i].part_bytes > 0;
    plan.reads.push_back(
        {i, i + 1, location.offset, is_part ? 0 : location.byte_count});
  }
}

}  // namespace

RestorePlan JoinChunks(std::vector<PlannedChunk> chunks) {
  RestorePlan plan;
  plan.chunks = std::move(chunks);
  if (!std::is_sorted(plan.chunks.begin(), plan.chunks.end(), ChunkLess)) {
    std::stable_sort(plan.chunks.begin(), plan.chunks.end(), ChunkLess);
  }
  const auto ranged =
      std::partition_point(plan.chunks.begin(), plan.chunks.end(),
                           [](const PlannedChunk& c) { return !IsRanged(c); });
  const size_t unranged_count = ranged - plan.chunks.begin();
  BatchUnranged(unranged_count, plan);
  JoinRanged(unranged_count, plan);
  return plan;
}

}  // namespace holdfast
