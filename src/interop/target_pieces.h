// Pieces of a leaf that lies in one file in C order, as most targets store it.
//
// Thread-safety: pure functions. Units: bytes; elements in boxes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interop/target.h"

namespace holdfast {

// FormatTarget::PiecesOf: runs of the C order.
std::vector<Box> CPiecesOf(const TargetLeaf& leaf, uint64_t bytes_max);

// Where a piece of CPiecesOf begins, from the leaf's first byte.
// InvalidArgument when the box is none, or `elements` are not its bytes.
Result<uint64_t> CPieceOffset(const TargetLeaf& leaf, const Box& box,
                              std::string_view elements);

// The leaf has pieces of its own; all others have their value in `text`.
bool HasPieces(const TargetLeaf& leaf);

}  // namespace holdfast
