#include "engine/restore/extent_read.h"

#include <algorithm>
#include <cassert>

#include "ground/base/status_macros.h"
#include "ground/tensor/copy.h"

namespace holdfast {
namespace {

// Reading this many extra bytes costs less than another call.
constexpr uint64_t kGapBytesMax = 16 << 10;
// Rows of this size are worth one call each if that avoids copying them.
constexpr uint64_t kInPlaceBytesMin = 256 << 10;
// The size of one call, which a cancel cannot interrupt.
constexpr uint64_t kCallBytesMax = 64 << 20;

// Returns the axis with the largest stride among the axes longer than 1; -1 if
// no axis is longer.
int OuterAxis(const Shape& shape, const Shape& strides) {
  int outer = -1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1 && (outer < 0 || strides[d] > strides[outer])) {
      outer = static_cast<int>(d);
    }
  }
  return outer;
}

uint64_t SpanOf(const Shape& shape, const Shape& strides,
                size_t element_bytes) {
  uint64_t span = element_bytes;
  for (size_t d = 0; d < shape.size(); ++d) {
    span += static_cast<uint64_t>(shape[d] - 1) * strides[d];
  }
  return span;
}

uint64_t BytesIn(const Shape& shape, size_t element_bytes) {
  return static_cast<uint64_t>(ElementCount(shape)) * element_bytes;
}

// Returns true if the target has the elements in the same order as the file,
// without gaps.
bool LiesAlike(const Shape& shape, const Shape& strides,
               const Shape& target_strides, size_t element_bytes) {
  for (size_t d = 0; d < shape.size(); ++d) {
    // The stride of an axis with one element does not matter.
    if (shape[d] > 1 && strides[d] != target_strides[d]) return false;
  }
  return SpanOf(shape, strides, element_bytes) == BytesIn(shape, element_bytes);
}

class BoxReader {
 public:
  BoxReader(Store& store, const ExtentRead& read, uint64_t scratch_bytes_max,
            ExtentScratch& scratch, const CancelToken& cancel)
      : store_(store),
        read_(read),
        element_bytes_(DTypeBytes(read.dtype)),
        strides_(ExtentStrides(*read.extent, element_bytes_)),
        scratch_bytes_max_(std::max<uint64_t>(scratch_bytes_max, 16)),
        scratch_(scratch),
        cancel_(cancel) {}

  Result<uint64_t> Run() {
    HF_RETURN_IF_ERROR(
        ReadPart(Relative(read_.box, read_.extent->box.origin), read_.target));
    return read_bytes_;
  }

  bool IsInPlace(const Shape& shape, const ArrayView& target) const {
    return read_.dtype == target.dtype &&
           (!read_.extent->is_big_endian || element_bytes_ == 1) &&
           LiesAlike(shape, strides_, target.strides, element_bytes_);
  }

 private:
  // Reads a part of the box. `box` is relative to the extent.
  Status ReadPart(const Box& box, const ArrayView& target) {
    HF_RETURN_IF_ERROR(cancel_.Check());
    if (IsInPlace(box.shape, target)) return ReadStraight(box, target);
    const int axis = OuterAxis(box.shape, strides_);
    const uint64_t span = SpanOf(box.shape, strides_, element_bytes_);
    // A single element that needs a cast or a byte swap.
    if (axis < 0) return ReadSpan(box, target, span);
    Shape row = box.shape;
    row[axis] = 1;
    const uint64_t row_span = SpanOf(row, strides_, element_bytes_);
    const uint64_t stride = strides_[axis];
    const bool has_gaps = stride > row_span && stride - row_span > kGapBytesMax;
    const bool is_better_in_rows =
        row_span >= kInPlaceBytesMin && IsInPlace(row, target);
    if (!has_gaps && !is_better_in_rows && span <= scratch_bytes_max_) {
      return ReadSpan(box, target, span);
    }
    int64_t row_count = 1;
    if (!has_gaps && !is_better_in_rows && row_span < scratch_bytes_max_ &&
        stride > 0) {
      row_count = (scratch_bytes_max_ - row_span) / stride + 1;
    }
    // The recursion ends: the rows fit into the scratch memory, or one more
    // axis is down to 1.
    return ReadRows(box, target, axis, row_count);
  }

  Status ReadRows(const Box& box, const ArrayView& target, int axis,
                  int64_t row_count) {
    for (int64_t first = 0; first < box.shape[axis]; first += row_count) {
      Box part = BoxOf(box.shape);
      part.origin[axis] = first;
      part.shape[axis] = std::min(row_count, box.shape[axis] - first);
      const ArrayView view = Subview(target, part);
      part.origin = box.origin;
      part.origin[axis] += first;
      HF_RETURN_IF_ERROR(ReadPart(part, view));
    }
    return Status();
  }

  // Returns the offset in the file of `box`, which is relative to the extent.
  uint64_t OffsetOf(const Box& box) const {
    return OffsetInFile(*read_.extent, read_.dtype,
                        Absolute(box, read_.extent->box.origin));
  }

  Status ReadBytes(uint64_t offset, char* target, uint64_t byte_count) {
    for (uint64_t done = 0; done < byte_count;) {
      HF_RETURN_IF_ERROR(cancel_.Check());
      const uint64_t piece = std::min(kCallBytesMax, byte_count - done);
      HF_RETURN_IF_ERROR(store_.ReadInto(read_.extent->file, offset + done,
                                         {target + done, piece}));
      done += piece;
    }
    // Foreign files may have bits set above a sub-byte value; equal values must
    // have equal bytes here.
    ClearUnusedBits(read_.dtype, target, byte_count);
    read_bytes_ += byte_count;
    return Status();
  }

  Status ReadStraight(const Box& box, const ArrayView& target) {
    return ReadBytes(OffsetOf(box), target.data,
                     BytesIn(box.shape, element_bytes_));
  }

  static Status Reserve(Buffer& buffer, uint64_t byte_count) {
    if (buffer.size() >= byte_count) return Status();
    // The old buffer is freed first, so that both never exist at the same time.
    buffer = Buffer();
    buffer = Buffer::TryAllocate(byte_count);
    if (buffer.data() != nullptr) return Status();
    return ResourceExhaustedError("no memory for a piece of " +
                                  std::to_string(byte_count) + " bytes");
  }

  Status ReadSpan(const Box& box, const ArrayView& target, uint64_t span) {
    HF_RETURN_IF_ERROR(Reserve(scratch_.span, span));
    HF_RETURN_IF_ERROR(ReadBytes(OffsetOf(box), scratch_.span.data(), span));
    const ConstArrayView source{read_.dtype, scratch_.span.data(), box.shape,
                                strides_};
    if (!read_.extent->is_big_endian) {
      ConvertStrided(source, target);
    } else if (read_.dtype == target.dtype) {
      CopyByteSwapped(source, target);
    } else {
      return ConvertSwapped(source, target);
    }
    return Status();
  }

  Status ConvertSwapped(const ConstArrayView& source, const ArrayView& target) {
    HF_RETURN_IF_ERROR(
        Reserve(scratch_.swapped, BytesIn(source.shape, element_bytes_)));
    const ArrayView swapped{source.dtype, scratch_.swapped.data(), source.shape,
                            ContiguousStrides(source.shape, element_bytes_)};
    CopyByteSwapped(source, swapped);
    ConvertStrided(swapped, target);
    return Status();
  }

  Store& store_;
  const ExtentRead& read_;
  const size_t element_bytes_;
  const Shape strides_;
  const uint64_t scratch_bytes_max_;
  ExtentScratch& scratch_;
  const CancelToken& cancel_;
  uint64_t read_bytes_ = 0;
};

void CutInto(const Box& box, const Shape& strides, size_t element_bytes,
             uint64_t bytes_max, std::vector<Box>& parts) {
  const int axis = OuterAxis(box.shape, strides);
  if (axis < 0 || BytesIn(box.shape, element_bytes) <= bytes_max) {
    parts.push_back(box);
    return;
  }
  Shape row = box.shape;
  row[axis] = 1;
  const uint64_t row_bytes = BytesIn(row, element_bytes);
  const int64_t row_count = std::max<int64_t>(1, bytes_max / row_bytes);
  for (int64_t first = 0; first < box.shape[axis]; first += row_count) {
    Box part = box;
    part.origin[axis] += first;
    part.shape[axis] = std::min(row_count, box.shape[axis] - first);
    CutInto(part, strides, element_bytes, bytes_max, parts);
  }
}

}  // namespace

std::optional<uint64_t> ExtentSpan(const Shape& shape, const Shape& strides,
                                   size_t element_bytes) {
  uint64_t span = element_bytes;
  for (size_t d = 0; d < shape.size(); ++d) {
    uint64_t step = 0;
    if (shape[d] < 1 || strides[d] < 0 ||
        __builtin_mul_overflow(static_cast<uint64_t>(shape[d] - 1),
                               static_cast<uint64_t>(strides[d]), &step) ||
        __builtin_add_overflow(span, step, &span)) {
      return std::nullopt;
    }
  }
  return span;
}

Shape ExtentStrides(const Extent& extent, size_t element_bytes) {
  return extent.strides.empty()
             ? ContiguousStrides(extent.box.shape, element_bytes)
             : extent.strides;
}

std::vector<Box> CutBox(const Box& box, const Shape& strides,
                        size_t element_bytes, uint64_t bytes_max) {
  std::vector<Box> parts;
  if (!IsEmpty(box)) CutInto(box, strides, element_bytes, bytes_max, parts);
  return parts;
}

bool IsPlainRange(const Extent& extent, DType dtype, const Box& box) {
  const size_t element_bytes = DTypeBytes(dtype);
  const bool has_plain_bits = DTypeBits(dtype) >= 8 && dtype != DType::kBool;
  return has_plain_bits && (!extent.is_big_endian || element_bytes == 1) &&
         LiesAlike(box.shape, ExtentStrides(extent, element_bytes),
                   ContiguousStrides(box.shape, element_bytes), element_bytes);
}

uint64_t OffsetInFile(const Extent& extent, DType dtype, const Box& box) {
  const Shape strides = ExtentStrides(extent, DTypeBytes(dtype));
  uint64_t offset = extent.offset;
  for (size_t d = 0; d < strides.size(); ++d) {
    offset += static_cast<uint64_t>(box.origin[d] - extent.box.origin[d]) *
              strides[d];
  }
  return offset;
}

void RawArray::ForEachExtent(
    const Box& box,
    const std::function<void(const Extent& extent, const Box& common)>& fn)
    const {
  if (boxes != nullptr) {
    boxes->ForEachOverlap(
        box, [&](size_t i, const Box& common) { fn(extents[i], common); });
  } else if (!extents.empty()) {
    const auto common = Intersect(extents[0].box, box);
    if (common) fn(extents[0], *common);
  }
}

bool ReadsInPlace(const ExtentRead& read) {
  const size_t element_bytes = DTypeBytes(read.dtype);
  return read.dtype == read.target.dtype &&
         (!read.extent->is_big_endian || element_bytes == 1) &&
         LiesAlike(read.box.shape, ExtentStrides(*read.extent, element_bytes),
                   read.target.strides, element_bytes);
}

Result<uint64_t> ReadExtentBox(Store& store, const ExtentRead& read,
                               uint64_t scratch_bytes_max,
                               ExtentScratch& scratch,
                               const CancelToken& cancel) {
  return BoxReader(store, read, scratch_bytes_max, scratch, cancel).Run();
}

}  // namespace holdfast
