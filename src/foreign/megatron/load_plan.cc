#include <algorithm>
#include <cassert>

#include "foreign/megatron/error.h"
#include "foreign/megatron/flat_boxes.h"
#include "foreign/megatron/python_text.h"
#include "foreign/megatron/zarr_load.h"
#include "ground/base/status_macros.h"
#include "ground/tensor/copy.h"

namespace holdfast::megatron {
namespace {

std::string SliceText(const SliceItem& item) {
  if (item.is_index) return std::to_string(item.start);
  return "slice(" + std::to_string(item.start) + ", " +
         std::to_string(item.stop) + ", None)";
}

std::string SlicesText(const std::vector<SliceItem>& slice) {
  std::string text;
  for (const SliceItem& item : slice) {
    text += (text.empty() ? "" : ", ") + SliceText(item);
  }
  return "(" + text + (slice.size() == 1 ? ",)" : ")");
}

Status RankMismatch(const ShardedTensor& tensor, const Shape& stored,
                    LoadMode mode) {
  if (mode == LoadMode::kZarr) {
    const bool too_many = tensor.global_shape.size() > stored.size();
    return MakeError(
        StatusCode::kInvalidArgument, "RANK_MISMATCH", "IndexError",
        std::string(too_many ? "too many" : "too few") +
            " indices for array; expected " + std::to_string(stored.size()) +
            ", got " + std::to_string(tensor.global_shape.size()));
  }
  return MakeError(
      StatusCode::kInvalidArgument, "RANK_MISMATCH", "AssertionError",
      "(" + SlicesText(tensor.GlobalSlice()) + ", " + ShapeToString(stored) +
          ", " + PythonRepr(tensor.key) + ")");
}

// Refuses a slice that starts past the end, as the default loader does.
Status CheckNotPast(const ShardedTensor& tensor, const Shape& stored) {
  const auto slice = tensor.GlobalSlice();
  for (size_t i = 0; i < slice.size(); ++i) {
    if (slice[i].start < stored[i]) continue;
    return MakeError(
        StatusCode::kInvalidArgument, "EMPTY_SLICE", "AssertionError",
        "Got empty slice for ShardedTensor " + tensor.key + " (" +
            SliceText(slice[i]) + ", " + std::to_string(stored[i]) + ")");
  }
  return Status();
}

// Returns the part of a local box that is inside the stored array, in global
// coordinates; nullopt if it is empty.
std::optional<Box> StoredBox(const ZarrArray::State& array,
                             const ShardedTensor& tensor, const Box& local) {
  const auto prepended = static_cast<size_t>(tensor.prepend_axis_num);
  Box box = {tensor.global_offset, Shape(prepended, 1)};
  box.shape.insert(box.shape.end(), local.shape.begin(), local.shape.end());
  for (size_t i = 0; i < local.origin.size(); ++i) {
    box.origin[prepended + i] += local.origin[i];
  }
  const Shape& stored = array.metadata().shape;
  for (size_t i = 0; i < stored.size(); ++i) {
    const int64_t end = std::min(box.origin[i] + box.shape[i], stored[i]);
    if (end <= box.origin[i]) return std::nullopt;
    box.shape[i] = end - box.origin[i];
  }
  return box;
}

ArrayView Mutable(const ConstArrayView& view) {
  return {view.dtype, const_cast<char*>(view.data), view.shape, view.strides};
}

// Adds the stored part of a local box. `target` has the shape of the local box.
void AddPart(const ZarrArray::State& array, const ShardedTensor& tensor,
             const Box& local, ArrayView target,
             std::vector<StoredPart>& parts) {
  const std::optional<Box> box = StoredBox(array, tensor, local);
  if (!box) return;
  const auto prepended = static_cast<size_t>(tensor.prepend_axis_num);
  target.shape.insert(target.shape.begin(), prepended, 1);
  target.strides.insert(target.strides.begin(), prepended, 0);
  target.shape = box->shape;
  parts.push_back({*box, std::move(target)});
}

}  // namespace

Result<TensorPlan> PlanTensor(const ZarrArray::State& array,
                              const ShardedTensor& tensor, LoadMode mode,
                              bool pad_replicate) {
  HF_RETURN_IF_ERROR(tensor.WithoutData().Check());
  const Shape& stored = array.metadata().shape;
  const bool same_shape = tensor.global_shape == stored;
  if (!same_shape && !tensor.allow_shape_mismatch) {
    return CheckpointingError(
        StatusCode::kInvalidArgument, "GLOBAL_SHAPE_MISMATCH",
        "Global shape mismatch for loaded (" + ShapeToString(stored) +
            ") and expected (" + ShapeToString(tensor.global_shape) +
            ") tensor for key " + tensor.key);
  }
  if (tensor.global_shape.size() != stored.size()) {
    return RankMismatch(tensor, stored, mode);
  }
  if (!same_shape && mode == LoadMode::kTensorStore) {
    HF_RETURN_IF_ERROR(CheckNotPast(tensor, stored));
  }
  TensorPlan plan;
  plan.is_padded = StoredLocalShape(array, tensor) != tensor.local_shape;
  if (plan.is_padded && !tensor.allow_shape_mismatch) {
    return MakeError(StatusCode::kOutOfRange, "OUT_OF_RANGE", "IndexError",
                     "slice " + SlicesText(tensor.GlobalSlice()) +
                         " is outside of the array of shape " +
                         ShapeToString(stored) + " for key " + tensor.key);
  }
  plan.shape = tensor.local_shape;
  if (tensor.flattened_range) {
    plan.shape = {tensor.flattened_range->stop - tensor.flattened_range->start};
    plan.via_local = plan.is_padded && pad_replicate;
  }
  return plan;
}

Shape StoredLocalShape(const ZarrArray::State& array,
                       const ShardedTensor& tensor) {
  const auto prepended = static_cast<size_t>(tensor.prepend_axis_num);
  const Shape& stored = array.metadata().shape;
  Shape shape = tensor.local_shape;
  for (size_t i = 0; i < prepended; ++i) {
    // If a prepended index is not stored, no part of the shard is stored.
    if (tensor.global_offset[i] < stored[i]) continue;
    return Shape(shape.size(), 0);
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    shape[i] = std::clamp<int64_t>(
        stored[prepended + i] - tensor.global_offset[prepended + i], 0,
        shape[i]);
  }
  return shape;
}

std::vector<StoredPart> StoredParts(const ZarrArray::State& array,
                                    const ShardedTensor& tensor,
                                    const ArrayView& target, bool via_local) {
  std::vector<StoredPart> parts;
  if (!tensor.flattened_range || via_local) {
    AddPart(array, tensor, BoxOf(tensor.local_shape), target, parts);
    return parts;
  }
  for (const FlatBox& flat :
       FlatBoxes(tensor.local_shape, *tensor.flattened_range)) {
    AddPart(array, tensor, flat.box, Mutable(FlatView(target, flat)), parts);
  }
  return parts;
}

void ReplicatePadding(const ArrayView& local, const Shape& stored_shape) {
  // Axis by axis, as torch.nn.functional.pad(mode="replicate") does.
  Shape done = stored_shape;
  for (size_t axis = 0; axis < local.shape.size(); ++axis) {
    if (done[axis] == 0) return;
    Box last = {Shape(done.size(), 0), done};
    last.origin[axis] = done[axis] - 1;
    last.shape[axis] = 1;
    const ConstArrayView source = Subview(local, last);
    for (int64_t i = done[axis]; i < local.shape[axis]; ++i) {
      Box row = last;
      row.origin[axis] = i;
      CopyStrided(source, Subview(local, row));
    }
    done[axis] = local.shape[axis];
  }
}

}  // namespace holdfast::megatron
