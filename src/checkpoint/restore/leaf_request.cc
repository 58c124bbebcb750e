#include "checkpoint/restore/leaf_request.h"

#include <algorithm>

#include "base/status_macros.h"
#include "run/run.h"
#include "tensor/box.h"
#include "tree/flatten.h"

namespace holdfast {
namespace {

// Names close to the wanted one, for the error message.
std::string CloseNames(const std::vector<LeafInfo>& leaves,
                       std::string_view name) {
  std::string text;
  int count = 0;
  for (const LeafInfo& leaf : leaves) {
    const bool is_close =
        leaf.name.find(name) != std::string::npos ||
        (!leaf.name.empty() && name.find(leaf.name) != std::string_view::npos);
    if (!is_close) continue;
    if (++count > 5) return text + ", ...";
    text += (count == 1 ? "; close: " : ", ") + leaf.name;
  }
  return text;
}

}  // namespace

Result<size_t> FindLeaf(const std::vector<LeafInfo>& leaves,
                        std::string_view path, std::string_view name) {
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].name == name) return i;
  }
  return NotFoundError("leaf \"" + std::string(name) + "\" is not in " +
                       std::string(path) + CloseNames(leaves, name));
}

Status CheckLeafBox(const LeafInfo& leaf, const Shape& origin,
                    const Shape& shape) {
  const size_t rank = leaf.shape.size();
  if (origin.size() != rank || shape.size() != rank) {
    return InvalidArgumentError("leaf " + leaf.name + ": slice of rank " +
                                std::to_string(shape.size()) +
                                " of an array of shape " +
                                ShapeToString(leaf.shape));
  }
  for (size_t d = 0; d < rank; ++d) {
    if (origin[d] >= 0 && shape[d] >= 0 && origin[d] <= leaf.shape[d] &&
        shape[d] <= leaf.shape[d] - origin[d]) {
      continue;
    }
    return OutOfRangeError(
        "leaf " + leaf.name + ": slice " + BoxToString({origin, shape}) +
        " is not inside an array of shape " + ShapeToString(leaf.shape));
  }
  return Status();
}

Status CheckReadTarget(const LeafInfo& leaf, const ReadRequest& request) {
  const ArrayView& target = request.target;
  if (target.strides.size() != target.shape.size()) {
    return InvalidArgumentError("leaf " + leaf.name + ": the target has " +
                                std::to_string(target.strides.size()) +
                                " strides, want " +
                                std::to_string(target.shape.size()));
  }
  // The one cast that TensorStore refuses, in its words.
  if (target.dtype == DType::kBool && leaf.dtype &&
      DTypeKindOf(*leaf.dtype) == DTypeKind::kComplex) {
    return InvalidArgumentError("Source does not support reading.");
  }
  return CheckLeafBox(leaf, request.origin, target.shape);
}

KeyPath PathOf(const LeafInfo& leaf) {
  KeyPath path;
  for (size_t i = 0; i < leaf.key.size(); ++i) {
    path.push_back({leaf.key[i], i < leaf.key_is_sequence.size() &&
                                     leaf.key_is_sequence[i]});
  }
  return path;
}

std::vector<Box> SlabsOf(const LeafInfo& leaf, uint64_t slab_bytes) {
  const bool is_small = leaf.decoded_bytes <= slab_bytes;
  if (is_small || leaf.shape.empty() || leaf.chunk_shape.empty()) {
    return {BoxOf(leaf.shape)};
  }
  const int64_t row_count = leaf.shape[0];
  const uint64_t row_bytes =
      std::max<uint64_t>(1, leaf.decoded_bytes / row_count);
  const int64_t chunk_rows = leaf.codecs == "none" ? 1 : leaf.chunk_shape[0];
  const int64_t wanted_rows = std::max<int64_t>(1, slab_bytes / row_bytes);
  const int64_t slab_rows =
      (wanted_rows + chunk_rows - 1) / chunk_rows * chunk_rows;
  std::vector<Box> slabs;
  for (int64_t first = 0; first < row_count; first += slab_rows) {
    Box& slab = slabs.emplace_back(BoxOf(leaf.shape));
    slab.origin[0] = first;
    slab.shape[0] = std::min(slab_rows, row_count - first);
  }
  return slabs;
}

Result<Tree> StructureOf(const std::vector<LeafInfo>& leaves) {
  if (leaves.empty()) return Tree::Dict();
  std::vector<UnflattenEntry> entries;
  for (size_t i = 0; i < leaves.size(); ++i) {
    entries.push_back({PathOf(leaves[i]), IsEmptyKind(leaves[i].kind)
                                              ? EmptyValue(leaves[i].kind)
                                              : Tree(static_cast<int64_t>(i))});
  }
  return Unflatten(std::move(entries));
}

bool IsSelected(const std::vector<std::string>& names,
                std::string_view leaf_name) {
  if (names.empty()) return true;
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return leaf_name == name || name.empty() ||
           (leaf_name.size() > name.size() && leaf_name.starts_with(name) &&
            leaf_name[name.size()] == '.');
  });
}

Status CheckNamesExist(const std::vector<std::string>& names,
                       const std::vector<std::string_view>& leaf_names) {
  for (const std::string& name : names) {
    const bool found = std::any_of(
        leaf_names.begin(), leaf_names.end(),
        [&](std::string_view leaf) { return IsSelected({name}, leaf); });
    if (!found) {
      return NotFoundError("no leaf is named \"" + name +
                           "\" or lies below it");
    }
  }
  return Status();
}

Status CheckMemoryFor(uint64_t byte_count) {
  const uint64_t physical_bytes = PhysicalMemoryBytes();
  if (byte_count <= physical_bytes) return Status();
  return ResourceExhaustedError(
      "load: the tensors take more memory than the machine has (got " +
      std::to_string(physical_bytes) + " bytes, want " +
      std::to_string(byte_count) + "); load fewer leaves by name");
}

bool IsEmptyKind(ValueKind kind) {
  return kind == ValueKind::kNone || kind == ValueKind::kEmptyDict ||
         kind == ValueKind::kEmptyList || kind == ValueKind::kEmptyTuple;
}

Tree EmptyValue(ValueKind kind) {
  switch (kind) {
    case ValueKind::kEmptyDict:
      return Tree::Dict();
    case ValueKind::kEmptyList:
      return Tree::List();
    case ValueKind::kEmptyTuple:
      return Tree::Tuple();
    case ValueKind::kPlaceholder:
      return Tree::Placeholder();
    default:
      return Tree::None();
  }
}

}  // namespace holdfast
