#include "interop/target_pieces.h"

#include "tensor/grid.h"

namespace holdfast {

bool HasPieces(const TargetLeaf& leaf) {
  return leaf.kind == ValueKind::kArray;
}

std::vector<Box> CPiecesOf(const TargetLeaf& leaf, uint64_t bytes_max) {
  if (!HasPieces(leaf)) return {};
  return RowPieces(BoxOf(leaf.shape), DTypeBytes(leaf.dtype), bytes_max);
}

Result<uint64_t> CPieceOffset(const TargetLeaf& leaf, const Box& box,
                              std::string_view elements) {
  const Shape strides = ContiguousStrides(leaf.shape, DTypeBytes(leaf.dtype));
  bool is_run = box.shape.size() == leaf.shape.size();
  uint64_t offset = 0;
  uint64_t byte_count = DTypeBytes(leaf.dtype);
  // A run: ones, then any extent, then whole axes.
  bool is_cut = false;
  for (size_t d = leaf.shape.size(); is_run && d-- > 0;) {
    is_run = !is_cut || box.shape[d] == 1;
    is_cut |= box.shape[d] != leaf.shape[d];
    offset += box.origin[d] * strides[d];
    byte_count *= box.shape[d];
  }
  if (is_run && byte_count == elements.size()) return offset;
  return InvalidArgumentError("leaf " + leaf.name + ": " + BoxToString(box) +
                              " with " + std::to_string(elements.size()) +
                              " bytes is no piece of an array of shape " +
                              ShapeToString(leaf.shape));
}

}  // namespace holdfast
