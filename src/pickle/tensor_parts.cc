#include "pickle/tensor_parts.h"

#include <string>

#include "base/status_macros.h"
#include "pickle/numpy_dtype.h"

namespace holdfast::pickle {
namespace {

Status BadTensor(const std::string& what) {
  return DataLossError("pickle: a tensor " + what);
}

const Global* CalleeOf(const Program& program, const Node& node) {
  if (node.kind != NodeKind::kObject) return nullptr;
  return &program.global(program.node(program.object(node).callee));
}

const std::vector<NodeIndex>& ArgsOf(const Program& program, const Node& node) {
  return program.node(program.object(node).args).children;
}

// count * size, if memory can have such a size.
Result<int64_t> BytesOf(int64_t count, int64_t element_bytes) {
  int64_t bytes = 0;
  if (count < 0 || __builtin_mul_overflow(count, element_bytes, &bytes)) {
    return BadTensor("has a storage of " + std::to_string(count) + " elements");
  }
  return bytes;
}

Status CheckView(const Program& program, const Node& metadata) {
  if (metadata.kind == NodeKind::kNone ||
      (metadata.kind == NodeKind::kDict && metadata.children.empty())) {
    return {};
  }
  // With {"conj": True} or {"neg": True} the elements would have to be changed.
  if (metadata.kind == NodeKind::kDict && metadata.children.size() >= 2 &&
      program.node(metadata.children[0]).kind == NodeKind::kString) {
    return UnimplementedError(
        "pickle: a tensor is a lazy view (" +
        std::string(program.node(metadata.children[0]).text) +
        "), which is not read; save tensor.resolve_conj().resolve_neg()");
  }
  return BadTensor("has metadata that is not a dict");
}

// Refuses a tensor that reaches outside its storage, whatever its sizes and
// strides say.
Status CheckInside(const TensorParts& tensor) {
  int64_t end = tensor.offset_bytes;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i],
                               &reach) ||
        __builtin_add_overflow(end, reach, &end)) {
      end = tensor.storage.byte_count;
      break;
    }
  }
  const auto element = static_cast<int64_t>(DTypeBytes(tensor.dtype));
  if (end <= tensor.storage.byte_count - element) return {};
  return BadTensor("of shape " + ShapeToString(tensor.shape) +
                   " reaches past the end of its storage \"" +
                   std::string(tensor.storage.key) + "\" of " +
                   std::to_string(tensor.storage.byte_count) + " bytes");
}

Result<TensorParts> PlaceTensor(TensorParts tensor, int64_t offset,
                                const Shape& strides) {
  const auto element = static_cast<int64_t>(DTypeBytes(tensor.dtype));
  if (tensor.shape.size() > kRankMax) {
    return UnimplementedError(
        "pickle: a tensor has " + std::to_string(tensor.shape.size()) +
        " axes; at most " + std::to_string(kRankMax) + " are read");
  }
  if (strides.size() != tensor.shape.size()) {
    return BadTensor("has " + std::to_string(tensor.shape.size()) +
                     " sizes and " + std::to_string(strides.size()) +
                     " strides");
  }
  bool is_empty = false;
  for (size_t i = 0; i < strides.size(); ++i) {
    int64_t stride = 0;
    if (tensor.shape[i] < 0 || strides[i] < 0 ||
        __builtin_mul_overflow(strides[i], element, &stride)) {
      return BadTensor("has a size of " + std::to_string(tensor.shape[i]) +
                       " with a stride of " + std::to_string(strides[i]));
    }
    is_empty = is_empty || tensor.shape[i] == 0;
    tensor.strides.push_back(stride);
  }
  if (ElementCount(tensor.shape) > INT64_MAX / 16) {
    return BadTensor("of shape " + ShapeToString(tensor.shape) +
                     " has too many elements");
  }
  if (offset < 0 ||
      __builtin_mul_overflow(offset, element, &tensor.offset_bytes)) {
    return BadTensor("starts at element " + std::to_string(offset) +
                     " of its storage");
  }
  if (is_empty) {
    tensor.offset_bytes = 0;
    tensor.strides = ContiguousStrides(tensor.shape, element);
    return tensor;
  }
  HF_RETURN_IF_ERROR(CheckInside(tensor));
  return tensor;
}

}  // namespace

Result<Shape> ParseInts(const Program& program, const Node& node) {
  const Node* ints = &node;
  const Global* callee = CalleeOf(program, node);
  if (callee != nullptr && callee->use == NameUse::kTorchSize) {
    const auto& args = ArgsOf(program, node);
    if (args.size() != 1) return DataLossError("pickle: a broken torch.Size");
    ints = &program.node(args[0]);
  }
  if (ints->kind != NodeKind::kTuple && ints->kind != NodeKind::kList) {
    return DataLossError("pickle: sizes are " +
                         std::string(NodeKindName(ints->kind)) +
                         ", not a tuple");
  }
  Shape values;
  for (const NodeIndex child : ints->children) {
    const Node& value = program.node(child);
    if (value.kind != NodeKind::kInt) {
      return DataLossError("pickle: a size is " +
                           std::string(NodeKindName(value.kind)));
    }
    values.push_back(value.number);
  }
  return values;
}

Result<StorageId> ParseStorageId(const Program& program, const Node& id) {
  if (id.kind != NodeKind::kTuple || id.children.size() < 5 ||
      id.children.size() > 6) {
    return DataLossError("pickle: a persistent id is no storage's");
  }
  const auto part = [&](size_t i) -> const Node& {
    return program.node(id.children[i]);
  };
  if (part(0).kind != NodeKind::kString || part(0).text != "storage") {
    return DataLossError(
        "pickle: a persistent id is of a kind that is not "
        "\"storage\"");
  }
  if (part(1).kind != NodeKind::kGlobal ||
      program.global(part(1)).use != NameUse::kStorageType) {
    return DataLossError("pickle: a storage has no type");
  }
  if (part(2).kind != NodeKind::kString || part(4).kind != NodeKind::kInt) {
    return DataLossError("pickle: a storage has no key or size");
  }
  StorageId storage;
  storage.key = part(2).text;
  storage.dtype =
      DTypeOfTorchStorage(program.global(part(1)).name).value_or(DType::kUint8);
  HF_ASSIGN_OR_RETURN(
      storage.byte_count,
      BytesOf(part(4).number, static_cast<int64_t>(DTypeBytes(storage.dtype))));
  if (id.children.size() < 6 || part(5).kind == NodeKind::kNone) {
    return storage;
  }
  const Node& view = part(5);
  if (view.kind != NodeKind::kTuple || view.children.size() != 3 ||
      program.node(view.children[0]).kind != NodeKind::kString ||
      program.node(view.children[1]).kind != NodeKind::kInt ||
      program.node(view.children[2]).kind != NodeKind::kInt) {
    return DataLossError("pickle: a storage's view is not one");
  }
  const auto element = static_cast<int64_t>(DTypeBytes(storage.dtype));
  HF_ASSIGN_OR_RETURN(storage.view_offset_bytes,
                      BytesOf(program.node(view.children[1]).number, element));
  HF_ASSIGN_OR_RETURN(const int64_t view_bytes,
                      BytesOf(program.node(view.children[2]).number, element));
  if (storage.view_offset_bytes > storage.byte_count - view_bytes) {
    return DataLossError("pickle: a storage's view reaches past its end");
  }
  storage.view_of = storage.key;
  storage.byte_count = view_bytes;
  return storage;
}

Result<TensorParts> ParseTensor(const Program& program, const Node& node) {
  const Global& callee = *CalleeOf(program, node);
  const auto& args = ArgsOf(program, node);
  const bool is_v1 = callee.use == NameUse::kTensorV1;
  const bool is_v3 = callee.use == NameUse::kTensorV3;
  if (args.size() < (is_v1 ? 4u : is_v3 ? 7u : 6u) || args.size() > 8) {
    return BadTensor("is made of " + std::to_string(args.size()) +
                     " arguments");
  }
  const auto arg = [&](size_t i) -> const Node& {
    return program.node(args[i]);
  };
  if (arg(0).kind != NodeKind::kPersistent) {
    return BadTensor("has no storage but " +
                     std::string(NodeKindName(arg(0).kind)));
  }
  TensorParts tensor;
  HF_ASSIGN_OR_RETURN(
      tensor.storage,
      ParseStorageId(program, program.node(arg(0).children[0])));
  tensor.dtype = tensor.storage.dtype;
  if (is_v3) {
    if (arg(6).kind != NodeKind::kGlobal ||
        program.global(arg(6)).use != NameUse::kTorchDType) {
      return BadTensor("has no dtype");
    }
    const auto dtype = DTypeOfTorchName(program.global(arg(6)).name);
    if (!dtype) {
      return UnimplementedError("pickle: a tensor is of " +
                                program.global(arg(6)).FullName() +
                                ", which holdfast does not have");
    }
    tensor.dtype = *dtype;
  }
  const size_t metadata_at = is_v3 ? 7 : 6;
  if (args.size() > metadata_at) {
    HF_RETURN_IF_ERROR(CheckView(program, arg(metadata_at)));
  }
  if (arg(1).kind != NodeKind::kInt) return BadTensor("has no offset");
  HF_ASSIGN_OR_RETURN(tensor.shape, ParseInts(program, arg(2)));
  HF_ASSIGN_OR_RETURN(const Shape strides, ParseInts(program, arg(3)));
  return PlaceTensor(std::move(tensor), arg(1).number, strides);
}

const Node* TensorNode(const Program& program, const Node& node) {
  const Node* at = &node;
  // Wrappers are few; a longer chain is no tensor.
  for (int i = 0; i < 4; ++i) {
    const Global* callee = CalleeOf(program, *at);
    if (callee == nullptr) return nullptr;
    const auto& args = ArgsOf(program, *at);
    switch (callee->use) {
      case NameUse::kTensorV1:
      case NameUse::kTensorV2:
      case NameUse::kTensorV3:
        return at;
      case NameUse::kParameter:
      case NameUse::kParameterWithState:
        if (args.empty()) return nullptr;
        at = &program.node(args[0]);
        break;
      default:
        return nullptr;
    }
  }
  return nullptr;
}

}  // namespace holdfast::pickle
