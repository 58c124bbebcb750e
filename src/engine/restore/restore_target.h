// RestoreTarget: what is wanted of a stored array, and where it goes; and the
// few questions that planning and reading both ask about many of them.
//
// Thread-safety: values and pure functions. Ownership: homes, arrays and the
// memory behind views are borrowed. Units: elements; bytes where named so.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/restore/array_home.h"
#include "ground/tensor/box_index.h"

namespace holdfast {

// A part of a stored array, and the memory it goes to.
struct RestoreTarget {
  const ArrayHome* home = nullptr;
  ReadableArray array;
  // Where the part starts in the array; empty: it is the whole array.
  Shape origin;
  ArrayView view;  // of the part's shape; elements are cast to its dtype
};

// One stored chunk that is wanted.
struct PlannedChunk {
  uint32_t group = 0;  // of targets: the number of the wanted array
  Box box;             // the part of the array it covers
  ObjectLocation location;
  bool is_missing = false;  // filled with the fill value
  // Decoded bytes of the part that is wanted and can be read by itself; 0: the
  // whole chunk is read.
  uint64_t part_bytes = 0;
  // For a raw array: the extent that it is a part of (null: its reader gives
  // it), and the number of the one target that it is for.
  const Extent* extent = nullptr;
  uint32_t raw_target = 0;
};

// The targets [first, last) of one array.
struct TargetGroup {
  size_t first = 0;
  size_t last = 0;
  // Their boxes, when there are several.
  std::unique_ptr<const BoxIndex> boxes;
};

// In order. REQUIRES: targets of one array are neighbours, and not empty.
std::vector<TargetGroup> GroupTargets(
    const std::vector<RestoreTarget>& targets);

// The part of the array that the target wants.
Box BoxOfTarget(const RestoreTarget& target);

// Calls fn(target, common part) for each target of the group that wants some of
// `chunk_box`.
using UseFn =
    std::function<void(const RestoreTarget& target, const Box& common)>;
void ForEachUse(const std::vector<RestoreTarget>& targets,
                const TargetGroup& group, const Box& chunk_box,
                const UseFn& fn);

// How many requests at once are worth having for what holds the targets.
int RequestsInFlight(const std::vector<RestoreTarget>& targets);

// Bytes of all that the targets want, as they are stored decoded.
uint64_t WantedBytes(const std::vector<RestoreTarget>& targets);

// The least box that holds both.
Box Hull(const Box& a, const Box& b);
// Bytes of the stored elements in a box of the array.
uint64_t BytesOf(const Box& box, const ReadableArray& array);

// The chunk that `box`, a chunk or a part of one, lies in: its index in the
// grid, and its first element.
Shape ChunkIndexOf(const ReadableArray& array, const Box& box);
Shape ChunkOriginOf(const ReadableArray& array, const Box& box);
std::string ChunkKeyOf(const ReadableArray& array, const Box& box);

// Says what could not be done with the chunk, in the words of its home, or
// ours: "leaf a.b: chunk [0:4]: " and the failure, which names the place; with
// `adds_place` it does not, and is told where: "/ckpt/d/7a28 at 0".
Status ChunkFailure(const PlannedChunk& chunk, const RestoreTarget& target,
                    const Status& failure, bool adds_place);

}  // namespace holdfast
