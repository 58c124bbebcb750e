// Leaves that are each stored in C order in one file, as most formats store
// them: their stored form, and the pieces in which they are written.
//
// Thread-safety: pure functions. Units: bytes; elements in boxes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "foreign/extents/target.h"

namespace holdfast {

// Implements FormatTarget::PiecesOf with runs in C order.
std::vector<Box> CPiecesOf(const TargetLeaf& leaf, uint64_t bytes_max);

// Returns the offset of a piece of CPiecesOf from the leaf's first byte.
// InvalidArgument if the box is not such a piece, or if `elements` does not
// have the size of the box.
Result<uint64_t> CPieceOffset(const TargetLeaf& leaf, const Box& box,
                              std::string_view elements);

// Returns the offset of the box's first element from the leaf's first byte.
uint64_t COffset(const TargetLeaf& leaf, const Box& box);

// Returns whether the leaf has pieces. The value of a leaf without pieces is in
// `text`.
bool HasPieces(const TargetLeaf& leaf);

// Writes a file of the checkpoint in one call. With `sync`, syncs it, but not
// its name.
Status WriteTargetFile(const std::string& directory, std::string_view name,
                       std::string_view text, bool sync);

// A value that a format of named raw arrays stores as an array.
struct RawValue {
  size_t leaf = 0;
  DType dtype = DType::kUint8;  // as stored
  Shape shape;
  uint64_t byte_count = 0;
};

// Returns the raw values of the leaves, in order: all values but texts that are
// short enough for the sidecar. InvalidArgument for two values with the same
// name, or for a name that is not allowed for a `what` (such as "tensor").
Result<std::vector<RawValue>> RawValuesOf(
    const std::vector<TargetLeaf>& leaves, const std::string& format,
    const std::string& what, bool (*can_be_name)(const std::string& name));

}  // namespace holdfast
