// Checkpoint: the parts common to all formats, before a format's own reading.
#include "holdfast/checkpoint.h"

#include <algorithm>
#include <utility>

#include "engine/restore/leaf_request.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/record/call_record.h"
#include "ground/tensor/box.h"
#include "ground/tree/flatten.h"

namespace holdfast {
namespace {

// Returns names similar to the wanted name, for the error message.
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

Status WrongKindError(const LeafInfo& leaf, const char* wanted) {
  const std::string kind(ValueKindName(leaf.kind));
  const bool has_vowel =
      std::string_view("aeio").find(kind[0]) != std::string_view::npos;
  return InvalidArgumentError("leaf " + leaf.name + " is " +
                              (has_vowel ? "an " : "a ") + kind + ", not " +
                              wanted);
}

// Returns ok when the box of `shape` at `origin` is inside the leaf.
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

Status CheckTarget(const LeafInfo& leaf, const ArrayView& target) {
  if (target.strides.size() != target.shape.size()) {
    return InvalidArgumentError("leaf " + leaf.name + ": the target has " +
                                std::to_string(target.strides.size()) +
                                " strides, want " +
                                std::to_string(target.shape.size()));
  }
  // The only cast that TensorStore refuses, with its message.
  if (target.dtype == DType::kBool &&
      DTypeKindOf(*leaf.dtype) == DTypeKind::kComplex) {
    return InvalidArgumentError("Source does not support reading.");
  }
  return Status();
}

}  // namespace

Result<size_t> Checkpoint::Find(std::string_view name) const {
  for (size_t i = 0; i < infos_.size(); ++i) {
    if (infos_[i].name == name) return i;
  }
  return NotFoundError("leaf \"" + std::string(name) + "\" is not in " +
                       info_.path + CloseNames(infos_, name));
}

Status Checkpoint::CheckNames(const std::vector<std::string>& names) const {
  std::vector<std::string_view> leaf_names;
  for (const LeafInfo& leaf : infos_) leaf_names.push_back(leaf.name);
  return CheckNamesExist(names, leaf_names);
}

Status Checkpoint::CheckNumber(size_t leaf) const {
  if (leaf < infos_.size()) return infos_[leaf].problem;
  return OutOfRangeError("leaf number " + std::to_string(leaf) + " of " +
                         std::to_string(infos_.size()));
}

Status Checkpoint::CheckHasElements(size_t leaf) const {
  HF_RETURN_IF_ERROR(CheckNumber(leaf));
  const LeafInfo& info = infos_[leaf];
  if (HasElements(info.kind) && info.dtype) return Status();
  return WrongKindError(info, "an array");
}

Result<Array> Checkpoint::Read(size_t leaf) const {
  HF_RETURN_IF_ERROR(CheckHasElements(leaf));
  const Shape& shape = infos_[leaf].shape;
  return ReadBox(leaf, Shape(shape.size(), 0), shape);
}

Result<Array> Checkpoint::Read(std::string_view name) const {
  HF_ASSIGN_OR_RETURN(const size_t leaf, Find(name));
  return Read(leaf);
}

Result<Array> Checkpoint::ReadBox(size_t leaf, const Shape& origin,
                                  const Shape& shape) const {
  return CatchBadAlloc([&]() -> Result<Array> {
    HF_RETURN_IF_ERROR(CheckHasElements(leaf));
    HF_RETURN_IF_ERROR(CheckLeafBox(infos_[leaf], origin, shape));
    HF_ASSIGN_OR_RETURN(Array array,
                        Array::Allocate(*infos_[leaf].dtype, shape));
    if (array.byte_count() == 0) return array;
    HF_RETURN_IF_ERROR(
        DoReadInto({{leaf, origin, array.mutable_view()}}, {}).status());
    return array;
  });
}

Result<Array> Checkpoint::ReadBox(std::string_view name, const Shape& origin,
                                  const Shape& shape) const {
  HF_ASSIGN_OR_RETURN(const size_t leaf, Find(name));
  return ReadBox(leaf, origin, shape);
}

Status Checkpoint::CheckRequest(const ReadRequest& request) const {
  HF_RETURN_IF_ERROR(CheckHasElements(request.leaf));
  const LeafInfo& leaf = infos_[request.leaf];
  HF_RETURN_IF_ERROR(CheckTarget(leaf, request.target));
  return CheckLeafBox(leaf, request.origin, request.target.shape);
}

Result<Stats> Checkpoint::ReadInto(const std::vector<ReadRequest>& requests,
                                   const RunOptions& run) const {
  const auto is_empty = [](const ReadRequest& request) {
    return ElementCount(request.target.shape) == 0;
  };
  const auto read = [&]() -> Result<Stats> {
    for (const ReadRequest& request : requests) {
      HF_RETURN_IF_ERROR(CheckRequest(request));
    }
    if (std::none_of(requests.begin(), requests.end(), is_empty)) {
      return DoReadInto(requests, run);
    }
    std::vector<ReadRequest> full;
    std::remove_copy_if(requests.begin(), requests.end(),
                        std::back_inserter(full), is_empty);
    return DoReadInto(full, run);
  };
  return InCall(CallKind::kLoad, info_.path,
                [&] { return CatchBadAlloc(read); });
}

Result<std::string> Checkpoint::ReadText(size_t leaf) const {
  HF_RETURN_IF_ERROR(CheckNumber(leaf));
  if (!HasText(infos_[leaf].kind)) return WrongKindError(infos_[leaf], "text");
  return CatchBadAlloc([&] { return DoReadText(leaf); });
}

Result<std::string> Checkpoint::ReadText(std::string_view name) const {
  HF_ASSIGN_OR_RETURN(const size_t leaf, Find(name));
  return ReadText(leaf);
}

Result<Tree> Checkpoint::Structure() const {
  return CatchBadAlloc([&] { return DoStructure(); });
}

Result<Tree> Checkpoint::IndexTree() const {
  return CatchBadAlloc([&]() -> Result<Tree> {
    std::vector<UnflattenEntry> entries;
    for (size_t i = 0; i < infos_.size(); ++i) {
      entries.push_back({PathOf(infos_[i]), Tree(static_cast<int64_t>(i))});
    }
    return Unflatten(std::move(entries));
  });
}

Result<Tree> Checkpoint::DoStructure() const { return StructureOf(infos_); }

std::string_view ValueKindName(ValueKind kind) {
  switch (kind) {
    case ValueKind::kArray:
      return "array";
    case ValueKind::kScalar:
      return "scalar";
    case ValueKind::kString:
      return "string";
    case ValueKind::kBytes:
      return "bytes";
    case ValueKind::kNone:
      return "none";
    case ValueKind::kEmptyDict:
      return "empty_dict";
    case ValueKind::kEmptyList:
      return "empty_list";
    case ValueKind::kEmptyTuple:
      return "empty_tuple";
    case ValueKind::kPlaceholder:
      return "placeholder";
    case ValueKind::kJson:
      return "json";
    case ValueKind::kObject:
      return "object";
  }
  return "unknown";
}

}  // namespace holdfast
