#include <algorithm>
#include <memory>

#include "foreign/megatron/flat_boxes.h"
#include "foreign/megatron/zarr_load.h"
#include "ground/base/status_macros.h"
#include "ground/tensor/box.h"
#include "ground/tensor/copy.h"
#include "holdfast/megatron/zarr.h"

namespace holdfast::megatron {
namespace {

// Returns the elements without `count` leading axes, all of extent 1.
Result<Array> DropAxes(const Array& array, size_t count) {
  ConstArrayView view = array.view();
  if (view.shape.size() < count) {
    return InvalidArgumentError("an array of shape " +
                                ShapeToString(view.shape) + " has no " +
                                std::to_string(count) + " axes to drop");
  }
  for (size_t i = 0; i < count; ++i) {
    if (view.shape[i] == 1) continue;
    return InvalidArgumentError(
        "prepended axis " + std::to_string(i) + " of an array of shape " +
        ShapeToString(view.shape) + " must have exactly one element");
  }
  const auto skip = static_cast<std::ptrdiff_t>(count);
  view.shape.erase(view.shape.begin(), view.shape.begin() + skip);
  view.strides.erase(view.strides.begin(), view.strides.begin() + skip);
  return Array::Borrow(view, std::make_shared<Array>(array));
}

}  // namespace

Result<Array> FlattenRange(const ShardedTensor& tensor, const Array& x) {
  if (!tensor.flattened_range) return x;
  const FlatRange range = *tensor.flattened_range;
  if (range.start < 0 || range.stop < range.start ||
      range.stop > x.element_count()) {
    return InvalidArgumentError(
        "flattened range [" + std::to_string(range.start) + ", " +
        std::to_string(range.stop) + ") is outside of an array of shape " +
        ShapeToString(x.shape()));
  }
  HF_ASSIGN_OR_RETURN(Array flat,
                      Array::Allocate(x.dtype(), {range.stop - range.start}));
  const ArrayView target = flat.mutable_view();
  for (const FlatBox& box : FlatBoxes(x.shape(), range)) {
    const ConstArrayView part = FlatView(target, box);
    CopyStrided(Subview(x.view(), box.box),
                ArrayView{part.dtype, const_cast<char*>(part.data), part.shape,
                          part.strides});
  }
  return flat;
}

Result<Array> PadToExpectedShape(const Array& x, const ShardedTensor& expected,
                                 bool pad_replicate) {
  const Shape& want = expected.local_shape;
  if (x.shape() == want) return x;
  if (x.shape().size() != want.size()) {
    return InvalidArgumentError("cannot pad an array of shape " +
                                ShapeToString(x.shape()) + " to " +
                                ShapeToString(want));
  }
  for (size_t i = 0; i < want.size(); ++i) {
    if (x.shape()[i] > want[i]) {
      return InvalidArgumentError("an array of shape " +
                                  ShapeToString(x.shape()) +
                                  " is larger than " + ShapeToString(want));
    }
  }
  HF_ASSIGN_OR_RETURN(Array padded, Array::Allocate(x.dtype(), want));
  const ArrayView target = padded.mutable_view();
  const std::string zero(DTypeBytes(x.dtype()), '\0');
  FillStrided(target, zero.data());
  CopyStrided(x.view(), Subview(target, BoxOf(x.shape())));
  if (pad_replicate) ReplicatePadding(target, x.shape());
  return padded;
}

Result<Array> PostprocessNumpyArray(const Array& loaded,
                                    const ShardedTensor& tensor,
                                    bool apply_flattened_range,
                                    bool pad_replicate) {
  HF_ASSIGN_OR_RETURN(
      Array x, DropAxes(loaded, static_cast<size_t>(
                                    std::max(tensor.prepend_axis_num, 0))));
  if (tensor.allow_shape_mismatch) {
    HF_ASSIGN_OR_RETURN(x, PadToExpectedShape(x, tensor, pad_replicate));
  }
  if (x.shape() != tensor.local_shape) {
    return InvalidArgumentError(
        "an array of shape " + ShapeToString(x.shape()) +
        " is not the local part of " + tensor.ToString());
  }
  return apply_flattened_range ? FlattenRange(tensor, x) : Result<Array>(x);
}

}  // namespace holdfast::megatron
