// The reading functions of the C API.

#include "holdfast/checkpoint.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "c_api/guard.h"
#include "c_api/open_options.h"
#include "c_api/structs.h"
#include "ground/base/status_macros.h"
#include "holdfast/c/holdfast.h"

struct holdfast_checkpoint {
  std::unique_ptr<holdfast::Checkpoint> checkpoint;
};

namespace holdfast {
namespace {

Result<const LeafInfo*> LeafAt(const holdfast_checkpoint* handle, size_t leaf) {
  HF_RETURN_IF_ERROR(NotNull(handle, "checkpoint"));
  const std::vector<LeafInfo>& leaves = handle->checkpoint->leaves();
  HF_RETURN_IF_ERROR(InRange(leaf, leaves.size(), "leaf"));
  return &leaves[leaf];
}

Result<const LeafInfo*> ArrayAt(const holdfast_checkpoint* handle,
                                size_t leaf) {
  HF_ASSIGN_OR_RETURN(const LeafInfo* info, LeafAt(handle, leaf));
  if (info->dtype.has_value()) return info;
  return InvalidArgumentError(info->name + ": has no elements (got " +
                              std::string(ValueKindName(info->kind)) +
                              ", want array or scalar)");
}

// Converts the caller's integers; a rank of 0 needs no memory.
Result<Shape> ShapeFrom(const LeafInfo& info, const char* what, size_t rank,
                        const int64_t* numbers) {
  if (rank != info.shape.size()) {
    return InvalidArgumentError(info.name + ": " + what + ": wrong rank (got " +
                                std::to_string(rank) + ", want " +
                                std::to_string(info.shape.size()) + ")");
  }
  if (rank == 0) return Shape();
  HF_RETURN_IF_ERROR(NotNull(numbers, what));
  return Shape(numbers, numbers + rank);
}

// Returns OutOfRange unless the box is inside the leaf.
Status CheckBox(const LeafInfo& info, const Shape& origin, const Shape& shape) {
  for (size_t i = 0; i < shape.size(); ++i) {
    if (origin[i] >= 0 && shape[i] >= 0 && origin[i] <= info.shape[i] &&
        shape[i] <= info.shape[i] - origin[i]) {
      continue;
    }
    return OutOfRangeError(
        info.name + ": box of shape " + ShapeToString(shape) + " at " +
        ShapeToString(origin) + ": not inside " + ShapeToString(info.shape));
  }
  return Status();
}

// Returns the bytes of a box. A file may claim a shape that does not fit in any
// memory, so the product is checked.
Result<size_t> BoxBytes(const LeafInfo& info, const Shape& shape) {
  const size_t element_bytes = DTypeBytes(*info.dtype);
  const auto count = static_cast<size_t>(ElementCount(shape));
  if (count <= PTRDIFF_MAX / element_bytes) return count * element_bytes;
  return ResourceExhaustedError(info.name +
                                ": too large for any memory (got shape " +
                                ShapeToString(shape) + ")");
}

Status ReadBoxInto(const holdfast_checkpoint* handle, size_t leaf,
                   const LeafInfo& info, Shape origin, Shape shape,
                   void* target, size_t target_bytes) {
  HF_RETURN_IF_ERROR(CheckBox(info, origin, shape));
  HF_ASSIGN_OR_RETURN(const size_t want, BoxBytes(info, shape));
  if (target_bytes != want) {
    return InvalidArgumentError(info.name + ": target_bytes: wrong size (got " +
                                std::to_string(target_bytes) + ", want " +
                                std::to_string(want) + ")");
  }
  if (want > 0) HF_RETURN_IF_ERROR(NotNull(target, "target"));
  ArrayView view{*info.dtype, static_cast<char*>(target), std::move(shape), {}};
  view.strides = ContiguousStrides(view.shape, DTypeBytes(view.dtype));
  return handle->checkpoint->ReadInto({{leaf, std::move(origin), view}})
      .status();
}

// Returns a copy of a string, which the caller frees with holdfast_free; null
// if there is no memory.
char* Duplicate(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy != nullptr) std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

holdfast_leaf_info InfoOf(const LeafInfo& leaf) {
  holdfast_leaf_info info{};
  info.name = leaf.name.c_str();
  info.kind = ValueKindName(leaf.kind).data();
  if (leaf.dtype.has_value()) {
    info.dtype = DTypeName(*leaf.dtype).data();
    info.element_bytes = DTypeBytes(*leaf.dtype);
  }
  info.rank = leaf.shape.size();
  info.shape = leaf.shape.data();
  info.stored_bytes = leaf.stored_bytes;
  return info;
}

}  // namespace
}  // namespace holdfast

using holdfast::Guard;
using holdfast::LeafInfo;
using holdfast::NotNull;
using holdfast::Status;

void holdfast_free(void* memory) { std::free(memory); }

holdfast_code holdfast_open(const char* path,
                            const holdfast_open_options* options,
                            holdfast_checkpoint** checkpoint) {
  return Guard([&]() -> Status {
    HF_RETURN_IF_ERROR(NotNull(path, "path"));
    HF_RETURN_IF_ERROR(NotNull(checkpoint, "checkpoint"));
    HF_ASSIGN_OR_RETURN(const holdfast::OpenOptions open_options,
                        holdfast::OpenOptionsFrom(options));
    HF_ASSIGN_OR_RETURN(auto opened, holdfast::Open(path, open_options));
    *checkpoint = new holdfast_checkpoint{std::move(opened)};
    return Status();
  });
}

void holdfast_close(holdfast_checkpoint* checkpoint) { delete checkpoint; }

holdfast_code holdfast_leaf_count(const holdfast_checkpoint* checkpoint,
                                  size_t* count) {
  return Guard([&]() -> Status {
    HF_RETURN_IF_ERROR(NotNull(checkpoint, "checkpoint"));
    HF_RETURN_IF_ERROR(NotNull(count, "count"));
    *count = checkpoint->checkpoint->leaves().size();
    return Status();
  });
}

holdfast_code holdfast_find(const holdfast_checkpoint* checkpoint,
                            const char* name, size_t* leaf) {
  return Guard([&]() -> Status {
    HF_RETURN_IF_ERROR(NotNull(checkpoint, "checkpoint"));
    HF_RETURN_IF_ERROR(NotNull(name, "name"));
    HF_RETURN_IF_ERROR(NotNull(leaf, "leaf"));
    HF_ASSIGN_OR_RETURN(*leaf, checkpoint->checkpoint->Find(name));
    return Status();
  });
}

holdfast_code holdfast_leaf(const holdfast_checkpoint* checkpoint, size_t leaf,
                            holdfast_leaf_info* info) {
  return Guard([&]() -> Status {
    HF_RETURN_IF_ERROR(NotNull(info, "info"));
    HF_ASSIGN_OR_RETURN(const LeafInfo* found,
                        holdfast::LeafAt(checkpoint, leaf));
    return holdfast::FillInfo(holdfast::InfoOf(*found), info);
  });
}

holdfast_code holdfast_leaf_bytes(const holdfast_checkpoint* checkpoint,
                                  size_t leaf, size_t* bytes) {
  return Guard([&]() -> Status {
    HF_RETURN_IF_ERROR(NotNull(bytes, "bytes"));
    HF_ASSIGN_OR_RETURN(const LeafInfo* info,
                        holdfast::ArrayAt(checkpoint, leaf));
    HF_ASSIGN_OR_RETURN(*bytes, holdfast::BoxBytes(*info, info->shape));
    return Status();
  });
}

holdfast_code holdfast_box_bytes(const holdfast_checkpoint* checkpoint,
                                 size_t leaf, size_t rank, const int64_t* shape,
                                 size_t* bytes) {
  return Guard([&]() -> Status {
    HF_RETURN_IF_ERROR(NotNull(bytes, "bytes"));
    HF_ASSIGN_OR_RETURN(const LeafInfo* info,
                        holdfast::ArrayAt(checkpoint, leaf));
    HF_ASSIGN_OR_RETURN(const holdfast::Shape box,
                        holdfast::ShapeFrom(*info, "shape", rank, shape));
    HF_RETURN_IF_ERROR(
        holdfast::CheckBox(*info, holdfast::Shape(box.size()), box));
    HF_ASSIGN_OR_RETURN(*bytes, holdfast::BoxBytes(*info, box));
    return Status();
  });
}

holdfast_code holdfast_read(const holdfast_checkpoint* checkpoint, size_t leaf,
                            void* target, size_t target_bytes) {
  return Guard([&]() -> Status {
    HF_ASSIGN_OR_RETURN(const LeafInfo* info,
                        holdfast::ArrayAt(checkpoint, leaf));
    return holdfast::ReadBoxInto(checkpoint, leaf, *info,
                                 holdfast::Shape(info->shape.size()),
                                 info->shape, target, target_bytes);
  });
}

holdfast_code holdfast_read_box(const holdfast_checkpoint* checkpoint,
                                size_t leaf, size_t rank, const int64_t* origin,
                                const int64_t* shape, void* target,
                                size_t target_bytes) {
  return Guard([&]() -> Status {
    HF_ASSIGN_OR_RETURN(const LeafInfo* info,
                        holdfast::ArrayAt(checkpoint, leaf));
    HF_ASSIGN_OR_RETURN(holdfast::Shape at,
                        holdfast::ShapeFrom(*info, "origin", rank, origin));
    HF_ASSIGN_OR_RETURN(holdfast::Shape box,
                        holdfast::ShapeFrom(*info, "shape", rank, shape));
    return holdfast::ReadBoxInto(checkpoint, leaf, *info, std::move(at),
                                 std::move(box), target, target_bytes);
  });
}

holdfast_code holdfast_read_text(const holdfast_checkpoint* checkpoint,
                                 size_t leaf, char** text, size_t* bytes) {
  return Guard([&]() -> Status {
    HF_RETURN_IF_ERROR(NotNull(text, "text"));
    HF_RETURN_IF_ERROR(holdfast::LeafAt(checkpoint, leaf).status());
    HF_ASSIGN_OR_RETURN(const std::string read,
                        checkpoint->checkpoint->ReadText(leaf));
    char* copy = holdfast::Duplicate(read);
    if (copy == nullptr) return holdfast::OutOfMemoryError();
    *text = copy;
    if (bytes != nullptr) *bytes = read.size();
    return Status();
  });
}
