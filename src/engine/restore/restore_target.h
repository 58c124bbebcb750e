// RestoreTarget: a wanted part of a stored array, and where it goes; and
// queries about many targets that planning and reading share.
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

// A part of a stored array, and the memory that receives it.
struct RestoreTarget {
  const ArrayHome* home = nullptr;
  ReadableArray array;
  // Where the part starts in the array; empty if it is the complete array.
  Shape origin;
  ArrayView view;  // has the part's shape; elements are cast to its dtype
};

// A stored chunk that is needed.
struct PlannedChunk {
  uint32_t group = 0;  // index of its group of targets
  Box box;             // the part of the array it covers
  ObjectLocation location;
  bool is_missing = false;  // filled with the fill value
  // Decoded bytes of the wanted part, if it can be read by itself; 0 if the
  // complete chunk is read.
  uint64_t part_bytes = 0;
  // For a raw array: the extent that the chunk is part of (null: its reader
  // returns it), and the index of its only target.
  const Extent* extent = nullptr;
  uint32_t raw_target = 0;
};

// The targets [first, last), which belong to one array.
struct TargetGroup {
  size_t first = 0;
  size_t last = 0;
  // The targets' boxes, if there are several.
  std::unique_ptr<const BoxIndex> boxes;
};

// Groups the targets by array, in order. REQUIRES: targets of one array are
// adjacent, and not empty.
std::vector<TargetGroup> GroupTargets(
    const std::vector<RestoreTarget>& targets);

// Returns the part of the array that the target wants.
Box BoxOfTarget(const RestoreTarget& target);

// Calls fn(target, common part) for each target in the group that overlaps
// `chunk_box`.
using UseFn =
    std::function<void(const RestoreTarget& target, const Box& common)>;
void ForEachUse(const std::vector<RestoreTarget>& targets,
                const TargetGroup& group, const Box& chunk_box,
                const UseFn& fn);

// Returns how many concurrent requests suit the stores that hold the targets.
int RequestsInFlight(const std::vector<RestoreTarget>& targets);

// Returns the bytes that all targets need, decoded in the stored dtype.
uint64_t WantedBytes(const std::vector<RestoreTarget>& targets);

// Returns the smallest box that contains both.
Box Hull(const Box& a, const Box& b);
// Returns the bytes of the decoded elements in a box of the array, in the
// stored dtype.
uint64_t BytesOf(const Box& box, const ReadableArray& array);

// These describe the chunk that `box` is, or is a part of. They return its
// index in the grid, its first element, and its key.
Shape ChunkIndexOf(const ReadableArray& array, const Box& box);
Shape ChunkOriginOf(const ReadableArray& array, const Box& box);
std::string ChunkKeyOf(const ReadableArray& array, const Box& box);

// Returns an error that says what failed with the chunk: the home's own
// message, or else "leaf a.b: chunk [0:4]: " and the failure. If the failure
// does not name the chunk's place, `adds_place` adds it: "/ckpt/d/7a28 at 0".
Status ChunkFailure(const PlannedChunk& chunk, const RestoreTarget& target,
                    const Status& failure, bool adds_place);

}  // namespace holdfast
