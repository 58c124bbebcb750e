#include <algorithm>
#include <cassert>

#include "foreign/megatron/error.h"
#include "foreign/megatron/python_text.h"
#include "formats/zarr/format/metadata.h"
#include "ground/base/status_macros.h"
#include "ground/tensor/box.h"
#include "holdfast/megatron/megatron.h"

namespace holdfast::megatron {
namespace {

using zarr::kExtentMax;

Status Invalid(std::string_view code, std::string_view text) {
  return CheckpointingError(StatusCode::kInvalidArgument, code, text);
}

std::string ReplicaText(const ReplicaId& id) {
  if (!id.is_tuple) return std::to_string(id.parts.empty() ? 0 : id.parts[0]);
  return ShapeToString(id.parts);
}

std::string OffsetsText(std::span<const RankOffset> offsets) {
  std::string text;
  for (const RankOffset& offset : offsets) {
    text += (text.empty() ? "" : ", ") +
            ShapeToString({offset.axis, offset.rank, offset.fragment_count});
  }
  return "(" + text + (offsets.size() == 1 ? ",)" : ")");
}

bool InRange(const Shape& extents) {
  return std::all_of(extents.begin(), extents.end(),
                     [](int64_t n) { return n >= 0 && n <= kExtentMax; });
}

// Checks bounds that the arithmetic here relies on. In Megatron, such numbers
// would fail later.
Status CheckNumbers(const ShardedTensor& tensor) {
  if (tensor.prepend_axis_num < 0 ||
      tensor.global_shape.size() > static_cast<size_t>(kRankMax)) {
    return Invalid("INVALID_DIMS",
                   "Number of axes out of range for " + tensor.ToString());
  }
  if (!InRange(tensor.local_shape) || !InRange(tensor.global_shape) ||
      ElementCount(tensor.local_shape) > kExtentMax ||
      ElementCount(tensor.global_shape) > kExtentMax) {
    return Invalid("INVALID_DIMS",
                   "Extents out of range for " + tensor.ToString());
  }
  if (!InRange(tensor.global_offset)) {
    return Invalid("INVALID_OFFSETS",
                   "Global offset out of range for " + tensor.ToString());
  }
  if (tensor.axis_fragmentations &&
      (tensor.axis_fragmentations->size() != tensor.global_shape.size() ||
       !std::all_of(tensor.axis_fragmentations->begin(),
                    tensor.axis_fragmentations->end(),
                    [](int64_t n) { return n >= 1 && n <= kExtentMax; }))) {
    return Invalid("INVALID_DIMS",
                   "Axis fragmentations should be one positive number for each "
                   "global axis for " +
                       tensor.ToString());
  }
  // Checks the grid of fragments, and the elements that it would cover.
  const Shape box_shape = tensor.BoxShape();
  for (size_t i = 0; tensor.axis_fragmentations && i < box_shape.size(); ++i) {
    if ((*tensor.axis_fragmentations)[i] <=
        kExtentMax / std::max<int64_t>(box_shape[i], 1)) {
      continue;
    }
    return Invalid("INVALID_DIMS",
                   "Axis fragmentations out of range for " + tensor.ToString());
  }
  if (tensor.axis_fragmentations &&
      ElementCount(*tensor.axis_fragmentations) > kExtentMax) {
    return Invalid("INVALID_DIMS",
                   "Axis fragmentations out of range for " + tensor.ToString());
  }
  return Status();
}

Status CheckFlatData(const ShardedTensor& tensor) {
  const Shape& shape = tensor.data.shape;
  if (shape.size() != 1) {
    return Invalid("INVALID_FLAT",
                   "Data should be 1D for a flattened " + tensor.ToString());
  }
  const int64_t element_count = ElementCount(tensor.local_shape);
  const int64_t start =
      std::clamp<int64_t>(tensor.flattened_range->start, 0, element_count);
  const int64_t stop =
      std::clamp<int64_t>(tensor.flattened_range->stop, start, element_count);
  if (shape[0] == stop - start) return Status();
  return Invalid("INVALID_FLAT",
                 "Data shape " + TorchSize(shape) + " doesnt match expected " +
                     TorchSize({stop - start}) + " for " + tensor.ToString());
}

Status CheckData(const ShardedTensor& tensor) {
  if (tensor.data.data == nullptr && !tensor.has_data) return Status();
  if (tensor.data.dtype != tensor.dtype) {
    return Invalid("INVALID_DATA",
                   "Data dtype should match `dtype` attribute "
                   "for " +
                       tensor.ToString());
  }
  if (tensor.flattened_range) return CheckFlatData(tensor);
  if (tensor.data.shape != tensor.local_shape) {
    return Invalid("INVALID_DATA",
                   "Data shape should match `local_shape` "
                   "attribute for " +
                       tensor.ToString());
  }
  return Status();
}

// Returns the rows [start, start + count) of axis `dim`.
ConstArrayView Rows(const ConstArrayView& view, size_t dim, int64_t start,
                    int64_t count) {
  Box box = BoxOf(view.shape);
  box.origin[dim] = start;
  box.shape[dim] = count;
  return Subview(view, box);
}

}  // namespace

bool IsMainReplica(const ReplicaId& replica_id) {
  return std::all_of(replica_id.parts.begin(), replica_id.parts.end(),
                     [](int64_t part) { return part == 0; });
}

std::string ShardedTensor::ToString() const {
  std::string text = "ShardedTensor(key=" + PythonRepr(key);
  text += ", dtype=" + TorchName(dtype);
  text += ", local_shape=" + ShapeToString(local_shape);
  text += ", global_shape=" + ShapeToString(global_shape);
  text += ", global_offset=" + ShapeToString(global_offset);
  text += ", axis_fragmentations=" + (axis_fragmentations
                                          ? ShapeToString(*axis_fragmentations)
                                          : std::string("None"));
  text += ", replica_id=" + ReplicaText(replica_id);
  text += ", prepend_axis_num=" + std::to_string(prepend_axis_num);
  text += std::string(", allow_shape_mismatch=") +
          (allow_shape_mismatch ? "True" : "False");
  text += ", flattened_range=";
  if (!flattened_range) return text + "None)";
  return text + "slice(" + std::to_string(flattened_range->start) + ", " +
         std::to_string(flattened_range->stop) + ", None))";
}

Status ShardedTensor::Check() const {
  HF_RETURN_IF_ERROR(CheckData(*this));
  if (global_shape.size() != global_offset.size()) {
    return Invalid("INVALID_DIMS",
                   "Global offset dimensions should be equal to global shape "
                   "dimensions for " +
                       ToString());
  }
  if (prepend_axis_num < 0 ||
      local_shape.size() + static_cast<size_t>(prepend_axis_num) !=
          global_shape.size()) {
    return Invalid("INVALID_DIMS",
                   "Local shape together with `prepend_axis_num` dimensions "
                   "should be equal to global shape dimensions for " +
                       ToString());
  }
  HF_RETURN_IF_ERROR(CheckNumbers(*this));
  // Without a grid, a part may have any offset.
  const size_t checked_axes = axis_fragmentations ? local_shape.size() : 0;
  for (size_t i = 0; i < checked_axes; ++i) {
    const int64_t offset =
        global_offset[static_cast<size_t>(prepend_axis_num) + i];
    if (local_shape[i] == 0 || offset % local_shape[i] == 0) continue;
    return Invalid("INVALID_OFFSETS",
                   "Global offset (" + std::to_string(offset) +
                       ") must be divisible by local shape (" +
                       std::to_string(local_shape[i]) + ") for " + ToString() +
                       ".");
  }
  if (flattened_range && (flattened_range->start < 0 ||
                          flattened_range->stop < flattened_range->start ||
                          flattened_range->stop > ElementCount(local_shape))) {
    return Invalid("INVALID_FLAT",
                   "Flattened range outside of the shard for " + ToString());
  }
  return Status();
}

Result<ShardedTensor> ShardedTensor::FromRankOffsets(
    std::string key, const ConstArrayView& data,
    std::span<const RankOffset> offsets, const ShardArgs& args) {
  if (args.prepend_axis_num < 0 || args.prepend_axis_num > kRankMax) {
    return Invalid("INVALID_DIMS",
                   "prepend_axis_num out of range for key " + key + ".");
  }
  const auto prepended = static_cast<size_t>(args.prepend_axis_num);
  ShardedTensor tensor;
  tensor.key = std::move(key);
  tensor.dtype = data.dtype;
  tensor.local_shape = data.shape;
  tensor.global_shape = Shape(prepended, 1);
  tensor.global_shape.insert(tensor.global_shape.end(), data.shape.begin(),
                             data.shape.end());
  tensor.global_offset = Shape(tensor.global_shape.size(), 0);
  tensor.axis_fragmentations = Shape(tensor.global_shape.size(), 1);
  tensor.replica_id = args.replica_id;
  tensor.prepend_axis_num = args.prepend_axis_num;
  tensor.allow_shape_mismatch = args.allow_shape_mismatch;
  tensor.data = data;
  for (const RankOffset& offset : offsets) {
    if (offset.axis < 0 || offset.rank < 0 || offset.fragment_count < 1 ||
        offset.rank >= offset.fragment_count) {
      return Invalid("INVALID_OFFSETS",
                     "Invalid rank offsets: " + OffsetsText(offsets) +
                         " for key " + tensor.key + ".");
    }
    const auto axis = static_cast<size_t>(offset.axis);
    if (axis >= tensor.global_shape.size()) {
      return MakeError(StatusCode::kInvalidArgument, "INVALID_OFFSETS",
                       "IndexError",
                       "tuple index out of range: rank offsets " +
                           OffsetsText(offsets) + " for key " + tensor.key);
    }
    const int64_t local = axis < prepended ? 1 : data.shape[axis - prepended];
    if (local > 0 && offset.fragment_count > kExtentMax / local) {
      return Invalid("INVALID_DIMS",
                     "Extents out of range for key " + tensor.key + ".");
    }
    tensor.global_shape[axis] = offset.fragment_count * local;
    tensor.global_offset[axis] = offset.rank * local;
    (*tensor.axis_fragmentations)[axis] = offset.fragment_count;
  }
  HF_RETURN_IF_ERROR(tensor.Check());
  return tensor;
}

Result<ShardedTensor> ShardedTensor::FromRankOffsetsFlat(
    std::string key, const ConstArrayView& data,
    const Shape& non_flat_local_shape, std::span<const RankOffset> offsets,
    const FlatRange& range, const ShardArgs& args) {
  if (data.shape.size() != 1) {
    return Invalid("INVALID_FLAT",
                   "Flattened ShardedTensor requires 1D data, got shape: " +
                       TorchSize(data.shape));
  }
  if (range.start < 0 || range.stop < range.start ||
      range.stop - range.start != data.shape[0]) {
    return Invalid("INVALID_FLAT",
                   "Flattened ShardedTensor data length (" +
                       std::to_string(data.shape[0]) +
                       ") must meet the slice length: " +
                       std::to_string(range.stop - range.start));
  }
  const ConstArrayView whole = {
      data.dtype, nullptr, non_flat_local_shape,
      ContiguousStrides(non_flat_local_shape, DTypeBytes(data.dtype))};
  HF_ASSIGN_OR_RETURN(ShardedTensor tensor,
                      FromRankOffsets(std::move(key), whole, offsets, args));
  tensor.flattened_range = range;
  tensor.data = data;
  HF_RETURN_IF_ERROR(tensor.Check());
  return tensor;
}

std::vector<SliceItem> ShardedTensor::GlobalSlice() const {
  const auto prepended = static_cast<size_t>(prepend_axis_num);
  std::vector<SliceItem> slice;
  for (size_t i = 0; i < global_offset.size(); ++i) {
    const int64_t start = global_offset[i];
    if (i < prepended) {
      slice.push_back({true, start, start + 1});
    } else {
      slice.push_back({false, start, start + local_shape[i - prepended]});
    }
  }
  return slice;
}

Shape ShardedTensor::BoxShape() const {
  Shape shape(static_cast<size_t>(prepend_axis_num), 1);
  shape.insert(shape.end(), local_shape.begin(), local_shape.end());
  return shape;
}

Result<Shape> ShardedTensor::LocalChunkOffsetInGlobal() const {
  Shape offset;
  const Shape box_shape = BoxShape();
  assert(box_shape.size() == global_offset.size());
  for (size_t i = 0; i < box_shape.size(); ++i) {
    if (box_shape[i] == 0) {
      return MakeError(
          StatusCode::kInvalidArgument, "EMPTY_AXIS", "ZeroDivisionError",
          "integer modulo by zero: an axis of " + ToString() + " is empty");
    }
    offset.push_back(global_offset[i] / box_shape[i]);
  }
  return offset;
}

Result<std::vector<std::vector<int64_t>>> ShardedTensor::LocalCoordinates()
    const {
  if (!flattened_range) {
    return InvalidArgumentError("`local_coordinates` is undefined for " +
                                ToString() + " without `flattened_range`");
  }
  const Shape strides = ContiguousStrides(local_shape, 1);
  std::vector<std::vector<int64_t>> coordinates(local_shape.size());
  for (int64_t i = flattened_range->start; i < flattened_range->stop; ++i) {
    for (size_t axis = 0; axis < strides.size(); ++axis) {
      coordinates[axis].push_back(i / strides[axis] % local_shape[axis]);
    }
  }
  return coordinates;
}

Result<std::vector<std::vector<int64_t>>> ShardedTensor::GlobalCoordinates()
    const {
  HF_ASSIGN_OR_RETURN(auto local, LocalCoordinates());
  const auto prepended = static_cast<size_t>(prepend_axis_num);
  std::vector<std::vector<int64_t>> coordinates;
  for (size_t i = 0; i < prepended; ++i) {
    coordinates.push_back({global_offset[i]});
  }
  for (size_t i = 0; i < local.size(); ++i) {
    for (int64_t& value : local[i]) value += global_offset[prepended + i];
    coordinates.push_back(std::move(local[i]));
  }
  return coordinates;
}

Result<Shape> ShardedTensor::MaxAllowedChunks() const {
  if (!axis_fragmentations) {
    return Invalid("UNEVEN_SHARDING",
                   "Unevenly sharded tensors are not supported by the zarr "
                   "format: " +
                       ToString());
  }
  Shape chunks;
  for (size_t i = 0; i < global_shape.size(); ++i) {
    const int64_t fragments = (*axis_fragmentations)[i];
    if (global_shape[i] % fragments != 0 && !allow_shape_mismatch) {
      return Invalid("NOT_DIVISIBLE",
                     "Axis shape (" + std::to_string(global_shape[i]) +
                         ") not divisible by axis fragmentation (" +
                         std::to_string(fragments) + ") for key " +
                         PythonRepr(key));
    }
    chunks.push_back(global_shape[i] / fragments);
  }
  return chunks;
}

Result<std::vector<ShardedTensor>> ShardedTensor::Narrow(int dim, int64_t start,
                                                         int64_t length) const {
  if (dim < 0 || static_cast<size_t>(dim) >= local_shape.size()) {
    return InvalidArgumentError("cannot narrow axis " + std::to_string(dim) +
                                " of " + ToString());
  }
  const auto axis = static_cast<size_t>(dim);
  const int64_t rows = local_shape[axis];
  if (start < 0 || length < 1 || start > rows - length) {
    return InvalidArgumentError(
        "cannot narrow to rows [" + std::to_string(start) + ", " +
        std::to_string(start) + " + " + std::to_string(length) + ") of axis " +
        std::to_string(dim) + " of " + ToString());
  }
  const size_t global_axis = axis + static_cast<size_t>(prepend_axis_num);
  if (global_shape[global_axis] % rows != 0 ||
      global_offset[global_axis] % rows != 0) {
    return InvalidArgumentError("cannot narrow " + ToString() +
                                ": not a whole number of local shards");
  }
  ShardedTensor narrowed = *this;
  narrowed.local_shape[axis] = length;
  narrowed.global_shape[global_axis] =
      global_shape[global_axis] / rows * length;
  narrowed.global_offset[global_axis] =
      global_offset[global_axis] / rows * length;
  if (!flattened_range) {
    if (data.data != nullptr) {
      narrowed.data = Rows(data, axis, start, length);
    } else if (has_data) {
      narrowed.data.shape = narrowed.local_shape;
    }
    return std::vector<ShardedTensor>{std::move(narrowed)};
  }
  if (dim != 0) {
    return Invalid("NARROW_UNSUPPORTED",
                   "Narrowing along the first axis is supported for now only, "
                   "got dim=" +
                       std::to_string(dim));
  }
  const int64_t row_elements = ElementCount(local_shape) / rows;
  const int64_t first = start * row_elements;
  const int64_t from = std::max(flattened_range->start, first);
  const int64_t to =
      std::min(flattened_range->stop, first + length * row_elements);
  if (from >= to) return std::vector<ShardedTensor>();
  narrowed.flattened_range = FlatRange{from - first, to - first};
  if (data.data != nullptr) {
    narrowed.data = Rows(data, 0, from - flattened_range->start, to - from);
  }
  return std::vector<ShardedTensor>{std::move(narrowed)};
}

ShardedTensor ShardedTensor::WithoutData() const {
  ShardedTensor copy = *this;
  copy.data = {};
  copy.has_data = false;
  return copy;
}

}  // namespace holdfast::megatron
