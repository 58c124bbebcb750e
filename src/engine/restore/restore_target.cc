#include "engine/restore/restore_target.h"

#include <algorithm>

#include "formats/zarr/format/chunk_key.h"

namespace holdfast {

Box BoxOfTarget(const RestoreTarget& target) {
  if (target.origin.empty()) return BoxOf(target.array.shape());
  return {target.origin, target.view.shape};
}

std::vector<TargetGroup> GroupTargets(
    const std::vector<RestoreTarget>& targets) {
  std::vector<TargetGroup> groups;
  groups.reserve(targets.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    if (i > 0 && targets[i].array == targets[i - 1].array &&
        targets[i].home == targets[i - 1].home) {
      groups.back().last = i + 1;
    } else {
      groups.push_back({i, i + 1, nullptr});
    }
  }
  for (TargetGroup& group : groups) {
    if (group.last - group.first == 1) continue;
    std::vector<Box> boxes;
    for (size_t i = group.first; i < group.last; ++i) {
      boxes.push_back(BoxOfTarget(targets[i]));
    }
    group.boxes = std::make_unique<const BoxIndex>(std::move(boxes));
  }
  return groups;
}

void ForEachUse(const std::vector<RestoreTarget>& targets,
                const TargetGroup& group, const Box& chunk_box,
                const UseFn& fn) {
  if (group.boxes != nullptr) {
    group.boxes->ForEachOverlap(chunk_box, [&](size_t i, const Box& common) {
      fn(targets[group.first + i], common);
    });
    return;
  }
  const RestoreTarget& target = targets[group.first];
  if (target.origin.empty()) return fn(target, chunk_box);
  const auto common = Intersect(BoxOfTarget(target), chunk_box);
  if (common) fn(target, *common);
}

int RequestsInFlight(const std::vector<RestoreTarget>& targets) {
  int count = 1;
  const ArrayHome* last = nullptr;
  for (const RestoreTarget& target : targets) {
    if (target.home == last) continue;
    last = target.home;
    count = std::max(count, last->array_store().requests_in_flight());
  }
  return count;
}

Box Hull(const Box& a, const Box& b) {
  Box hull = a;
  for (size_t d = 0; d < a.shape.size(); ++d) {
    const int64_t end =
        std::max(a.origin[d] + a.shape[d], b.origin[d] + b.shape[d]);
    hull.origin[d] = std::min(a.origin[d], b.origin[d]);
    hull.shape[d] = end - hull.origin[d];
  }
  return hull;
}

uint64_t BytesOf(const Box& box, const ReadableArray& array) {
  return ElementCount(box.shape) * DTypeBytes(array.dtype());
}

uint64_t WantedBytes(const std::vector<RestoreTarget>& targets) {
  uint64_t byte_count = 0;
  for (const RestoreTarget& target : targets) {
    byte_count += BytesOf(BoxOfTarget(target), target.array);
  }
  return byte_count;
}

Shape ChunkIndexOf(const ReadableArray& array, const Box& box) {
  Shape index = box.origin;
  for (size_t d = 0; d < index.size(); ++d) {
    index[d] /= array.layout->grid.chunk_shape[d];
  }
  return index;
}

Shape ChunkOriginOf(const ReadableArray& array, const Box& box) {
  Shape origin = box.origin;
  for (size_t d = 0; d < origin.size(); ++d) {
    origin[d] -= origin[d] % array.layout->grid.chunk_shape[d];
  }
  return origin;
}

std::string ChunkKeyOf(const ReadableArray& array, const Box& box) {
  return zarr::ChunkKey(array.prefix, array.layout->format.metadata,
                        ChunkIndexOf(array, box));
}

Status ChunkFailure(const PlannedChunk& chunk, const RestoreTarget& target,
                    const Status& failure, bool adds_place) {
  const ObjectLocation& location = chunk.location;
  const bool has_place =
      adds_place && location.store != nullptr && !location.inline_value;
  const std::string place =
      has_place ? location.store->Describe(location.key) : "";
  const std::string key = target.array.raw != nullptr
                              ? location.key
                              : ChunkKeyOf(target.array, chunk.box);
  const std::optional<Status> words = target.home->Explain(
      target.array, key,
      has_place ? failure.WithContext("Error reading \"" + place + "\"")
                : failure);
  if (words) return *words;
  std::string at = "leaf " + std::string(target.array.name) + ": chunk " +
                   BoxToString(chunk.box);
  if (has_place) at += ": " + place + " at " + std::to_string(location.offset);
  return failure.WithContext(at);
}

}  // namespace holdfast
