// LoadPlan: which parts of leaves are read together, and where their elements
// go in the memory that one read fills.
//
// Wanted boxes are cut between chunks, so that no chunk is decoded twice, and
// packed into windows in the order of the leaves and, in a leaf, of its chunks.
// A chunk that several boxes need is in one window. Elements that are stored
// raw ("none") may be cut anywhere.
// Thread-safety: values and pure functions. Units: bytes; elements in boxes.
// Errors: none; a box outside its leaf is the caller's bug.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ground/tensor/box.h"
#include "holdfast/checkpoint.h"

namespace holdfast {

// A box that is wanted in memory, with elements cast to `dtype`.
struct WantedPart {
  size_t leaf = 0;  // index into the checkpoint's leaves
  Box box;          // in the leaf, not empty
  DType dtype = DType::kUint8;
};

// A part of a wanted part.
struct LoadPiece {
  size_t part = 0;      // index of the wanted part
  Box box;              // in the leaf
  uint64_t offset = 0;  // in the window's memory, a multiple of 64
};

// A window of memory, which one read fills.
struct LoadWindow {
  std::vector<LoadPiece> pieces;
  uint64_t byte_count = 0;
};

// Returns windows of at most window_bytes bytes. Only a window with one chunk,
// whose wanted elements take more, is larger. REQUIRES: parts of one leaf are
// adjacent.
std::vector<LoadWindow> PlanLoad(const std::vector<LeafInfo>& leaves,
                                 const std::vector<WantedPart>& parts,
                                 uint64_t window_bytes);

// Names a range of leaves in messages: "leaf a", "leaves a to c".
std::string NameLeaves(const LeafInfo& first, const LeafInfo& last);

// Returns the bytes of the elements of `box` in memory.
uint64_t ElementBytes(const Box& box, DType dtype);

}  // namespace holdfast
