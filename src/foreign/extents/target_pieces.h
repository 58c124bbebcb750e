// Leaves that lie in one file each in C order, as most targets store them: what
// is stored of them, and in which pieces.
//
// Thread-safety: pure functions. Units: bytes; elements in boxes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "foreign/extents/target.h"

namespace holdfast {

// FormatTarget::PiecesOf: runs of the C order.
std::vector<Box> CPiecesOf(const TargetLeaf& leaf, uint64_t bytes_max);

// The offset of a piece of CPiecesOf from the leaf's first byte.
// InvalidArgument when the box is not such a piece, or `elements` are not its
// bytes.
Result<uint64_t> CPieceOffset(const TargetLeaf& leaf, const Box& box,
                              std::string_view elements);

// Where the box's first element lies, from the leaf's first byte.
uint64_t COffset(const TargetLeaf& leaf, const Box& box);

// The leaf has pieces of its own; all others have their value in `text`.
bool HasPieces(const TargetLeaf& leaf);

// A file of the checkpoint that is written at once, synced with `sync` (its
// name excepted).
Status WriteTargetFile(const std::string& directory, std::string_view name,
                       std::string_view text, bool sync);

// A value that a format of raw arrays with names stores as one of these.
struct RawValue {
  size_t leaf = 0;
  DType dtype = DType::kUint8;  // as stored
  Shape shape;
  uint64_t byte_count = 0;
};

// Those of the leaves, in their order: all but texts that are short enough for
// the sidecar. InvalidArgument for two of one name, or for a name that no
// `what` ("tensor") can have.
Result<std::vector<RawValue>> RawValuesOf(
    const std::vector<TargetLeaf>& leaves, const std::string& format,
    const std::string& what, bool (*can_be_name)(const std::string& name));

}  // namespace holdfast
