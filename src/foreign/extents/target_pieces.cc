#include "foreign/extents/target_pieces.h"

#include <unordered_set>

#include "foreign/sidecar/tree_sidecar.h"
#include "ground/base/status_macros.h"
#include "ground/tensor/grid.h"
#include "stores/storage/positioned_file.h"

namespace holdfast {

bool HasPieces(const TargetLeaf& leaf) {
  return leaf.kind == ValueKind::kArray;
}

std::vector<Box> CPiecesOf(const TargetLeaf& leaf, uint64_t bytes_max) {
  if (!HasPieces(leaf)) return {};
  return RowPieces(BoxOf(leaf.shape), DTypeBytes(leaf.dtype), bytes_max);
}

uint64_t COffset(const TargetLeaf& leaf, const Box& box) {
  const Shape strides = ContiguousStrides(leaf.shape, DTypeBytes(leaf.dtype));
  uint64_t offset = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    offset += box.origin[d] * strides[d];
  }
  return offset;
}

Result<uint64_t> CPieceOffset(const TargetLeaf& leaf, const Box& box,
                              std::string_view elements) {
  bool is_run = box.shape.size() == leaf.shape.size();
  uint64_t byte_count = DTypeBytes(leaf.dtype);
  // A run has extents of 1, then any extent, then full axes.
  bool is_cut = false;
  for (size_t d = leaf.shape.size(); is_run && d-- > 0;) {
    is_run = !is_cut || box.shape[d] == 1;
    is_cut |= box.shape[d] != leaf.shape[d];
    byte_count *= box.shape[d];
  }
  if (is_run && byte_count == elements.size()) {
    return COffset(leaf, box);
  }
  return InvalidArgumentError("leaf " + leaf.name + ": " + BoxToString(box) +
                              " with " + std::to_string(elements.size()) +
                              " bytes is not a piece of an array of shape " +
                              ShapeToString(leaf.shape));
}

Status WriteTargetFile(const std::string& directory, std::string_view name,
                       std::string_view text, bool sync) {
  HF_ASSIGN_OR_RETURN(
      const auto file,
      PositionedFile::Open(directory + "/" + std::string(name), text.size(),
                           /*keep=*/true));
  HF_RETURN_IF_ERROR(file->WriteAt(0, text));
  return sync ? file->Sync() : Status();
}

namespace {

// A longer text is stored as an array.
constexpr size_t kInlineTextBytesMax = 4096;

}  // namespace

Result<std::vector<RawValue>> RawValuesOf(
    const std::vector<TargetLeaf>& leaves, const std::string& format,
    const std::string& what, bool (*can_be_name)(const std::string& name)) {
  const auto refuse = [&](const TargetLeaf& leaf, const std::string& why) {
    return InvalidArgumentError("leaf " + leaf.name + ": " + format + ": " +
                                why);
  };
  std::unordered_set<std::string_view> names;
  std::vector<RawValue> values;
  for (size_t i = 0; i < leaves.size(); ++i) {
    const TargetLeaf& leaf = leaves[i];
    const bool is_scalar = leaf.kind == ValueKind::kScalar;
    const bool has_elements = HasPieces(leaf) || is_scalar;
    if (!has_elements && leaf.text.size() <= kInlineTextBytesMax) continue;
    if (!names.insert(leaf.name).second) {
      return refuse(leaf, "there are two leaves of this name");
    }
    if (!can_be_name(leaf.name)) {
      return refuse(leaf, "no " + what + " can have this name");
    }
    RawValue value{i,
                   DType::kUint8,
                   {static_cast<int64_t>(leaf.text.size())},
                   leaf.text.size()};
    if (has_elements) {
      const StoredAs stored = StorableDType(format, leaf.dtype);
      value = {i, stored.dtype, StorableShape(stored, leaf.shape),
               leaf.byte_count()};
    }
    if (is_scalar && leaf.text.size() != value.byte_count) {
      return refuse(
          leaf, "a scalar of " + std::to_string(leaf.text.size()) + " bytes");
    }
    values.push_back(std::move(value));
  }
  return values;
}

}  // namespace holdfast
