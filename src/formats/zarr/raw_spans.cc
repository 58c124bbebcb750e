#include "formats/zarr/raw_spans.h"

#include <cassert>

#include "ground/base/status_macros.h"

namespace holdfast::zarr {
namespace {

// Returns the number of bytes from the first to the last element of the box, if
// the box had only its dimensions from `first` on.
int64_t SpanBytes(const RawPlan& plan, size_t first) {
  int64_t byte_count = plan.item_bytes;
  for (size_t i = first; i < plan.strides.size(); ++i) {
    byte_count += (plan.box.shape[i] - 1) * plan.strides[i];
  }
  return byte_count;
}

// Returns the smallest split such that joins(i) holds for all dimensions i >=
// split.
template <typename Joins>
size_t SmallestSplit(const RawPlan& plan, Joins joins) {
  size_t split = plan.strides.size();
  while (split > 0 && (plan.box.shape[split - 1] == 1 || joins(split - 1))) {
    --split;
  }
  return split;
}

int64_t GapBytes(const RawPlan& plan, size_t dimension) {
  return plan.strides[dimension] - SpanBytes(plan, dimension + 1);
}

}  // namespace

RawPlan PlanRawSpans(const Shape& chunk_shape, size_t item_bytes,
                     const Box& box, const Shape& target_strides,
                     const RawSpanOptions& options) {
  assert(!IsEmpty(box));
  RawPlan plan;
  plan.item_bytes = static_cast<int64_t>(item_bytes);
  plan.strides = ContiguousStrides(chunk_shape, item_bytes);
  plan.box = box;
  // A span is direct if it has no gaps and the target is packed too. Without
  // gaps, the chunk's stride is the packed stride, so the two strides must be
  // equal.
  const size_t direct_split = SmallestSplit(plan, [&](size_t i) {
    return GapBytes(plan, i) == 0 && target_strides[i] == plan.strides[i];
  });
  const size_t joined_split = SmallestSplit(plan, [&](size_t i) {
    return GapBytes(plan, i) <= options.gap_bytes_max &&
           SpanBytes(plan, i) <= options.span_bytes_max;
  });
  // Reading straight into the target is better when it needs no more requests,
  // or when each request is large enough to be worth it.
  plan.direct = direct_split <= joined_split ||
                SpanBytes(plan, direct_split) >= options.direct_bytes_min;
  plan.split = plan.direct ? direct_split : joined_split;
  plan.span_bytes = SpanBytes(plan, plan.split);
  return plan;
}

Status ForEachRawSpan(const RawPlan& plan,
                      const std::function<Status(const RawSpan& span)>& fn) {
  const size_t rank = plan.strides.size();
  RawSpan span;
  span.box_in_target = BoxOf(plan.box.shape);
  for (size_t i = 0; i < plan.split; ++i) span.box_in_target.shape[i] = 1;
  Shape& at = span.box_in_target.origin;
  while (true) {
    span.offset = 0;
    for (size_t i = 0; i < rank; ++i) {
      span.offset +=
          static_cast<uint64_t>((plan.box.origin[i] + at[i]) * plan.strides[i]);
    }
    HF_RETURN_IF_ERROR(fn(span));
    // Counts like an odometer: the innermost of the split dimensions first.
    size_t i = plan.split;
    while (i > 0 && ++at[i - 1] == plan.box.shape[i - 1]) at[--i] = 0;
    if (i == 0) return Status();
  }
}

}  // namespace holdfast::zarr
