#include "formats/pickle/tensor_parts.h"

#include <string>

#include "formats/pickle/numpy_dtype.h"
#include "ground/base/status_macros.h"

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

// Returns count * size, unless it overflows.
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
  // With {"conj": True} or {"neg": True}, the elements would have to be
  // changed.
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
// strides are.
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
    return DataLossError("pickle: a persistent id does not name a storage");
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
  const std::string& type = program.global(part(1)).name;
  storage.dtype = DTypeOfTorchStorage(type).value_or(DType::kUint8);
  storage.element_bytes = static_cast<int64_t>(DTypeBytes(storage.dtype));
  if (const auto other = BytesOfOtherStorage(type)) {
    storage.lacked = type;
    storage.element_bytes = *other;
  }
  HF_ASSIGN_OR_RETURN(storage.byte_count,
                      BytesOf(part(4).number, storage.element_bytes));
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
  const int64_t element = storage.element_bytes;
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

namespace {

Status LacksDType(const std::string& name) {
  return UnimplementedError("pickle: a tensor is of " + name +
                            ", which holdfast does not have");
}

// The following functions parse arguments of torch's functions that make a
// tensor.
Result<DType> TakeDType(const Program& program, const Node& node) {
  if (node.kind != NodeKind::kGlobal ||
      program.global(node).use != NameUse::kTorchDType) {
    return BadTensor("has no dtype");
  }
  const auto dtype = DTypeOfTorchName(program.global(node).name);
  if (!dtype) return LacksDType(program.global(node).FullName());
  return *dtype;
}

}  // namespace

Result<TensorParts> ParseTensor(const Program& program,
                                const TensorCall& call) {
  const auto& args = *call.args;
  const bool is_v1 = call.use == NameUse::kTensorV1;
  const bool is_v3 = call.use == NameUse::kTensorV3;
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
    HF_ASSIGN_OR_RETURN(tensor.dtype, TakeDType(program, arg(6)));
  } else if (!tensor.storage.lacked.empty()) {
    return LacksDType("torch." + std::string(tensor.storage.lacked));
  }
  if (!call.want_dtype.empty() &&
      DTypeOfTorchName(call.want_dtype) != tensor.dtype) {
    return UnimplementedError(
        "pickle: a tensor of " + Abbreviated(std::string(call.want_dtype)) +
        " is made of elements of " + std::string(DTypeName(tensor.dtype)));
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

Result<TensorParts> ParseStorage(const Program& program, const Node& node) {
  TensorParts tensor;
  HF_ASSIGN_OR_RETURN(tensor.storage,
                      ParseStorageId(program, program.node(node.children[0])));
  if (!tensor.storage.lacked.empty()) {
    return LacksDType("torch." + std::string(tensor.storage.lacked));
  }
  tensor.dtype = tensor.storage.dtype;
  tensor.shape = {tensor.storage.byte_count / tensor.storage.element_bytes};
  return PlaceTensor(std::move(tensor), 0, {1});
}

namespace {

// A torch function that makes a tensor, and its arguments.
struct Rebuild {
  NameUse use = NameUse::kRefused;
  const std::vector<NodeIndex>* args = nullptr;
};

std::optional<Rebuild> RebuildOf(const Program& program, const Node& node) {
  const Global* callee = CalleeOf(program, node);
  if (callee == nullptr) return std::nullopt;
  const auto& args = ArgsOf(program, node);
  const Object& object = program.object(node);
  // torch before 0.2 pickled a tensor as an object whose state holds its
  // storage.
  if (callee->module == "torch" && callee->name.ends_with("Tensor") &&
      args.empty() && object.state) {
    const Node& state = program.node(*object.state);
    if (state.kind == NodeKind::kTuple && state.children.size() == 4) {
      return Rebuild{NameUse::kTensorV1, &state.children};
    }
  }
  return Rebuild{callee->use, &args};
}

// Returns the first call that _rebuild_from_type_v2(function, type, arguments,
// state) makes.
std::optional<Rebuild> InnerRebuild(const Program& program,
                                    const std::vector<NodeIndex>& args) {
  if (args.size() < 3) return std::nullopt;
  const Node& function = program.node(args[0]);
  const Node& inner = program.node(args[2]);
  if (function.kind != NodeKind::kGlobal || inner.kind != NodeKind::kTuple) {
    return std::nullopt;
  }
  return Rebuild{program.global(function).use, &inner.children};
}

// Returns the innermost call, which yields the elements.
std::optional<Rebuild> Innermost(const Program& program, const Node& node,
                                 std::string_view& want_dtype) {
  std::optional<Rebuild> at = RebuildOf(program, node);
  // There are few wrappers; a longer chain is not a tensor.
  for (int i = 0; at && i < 8; ++i) {
    const auto& args = *at->args;
    switch (at->use) {
      case NameUse::kTensorFromCpu:
        if (args.size() < 2 ||
            program.node(args[1]).kind != NodeKind::kGlobal) {
          return std::nullopt;
        }
        want_dtype = program.global(program.node(args[1])).name;
        [[fallthrough]];
      case NameUse::kParameter:
      case NameUse::kParameterWithState:
        if (args.empty()) return std::nullopt;
        at = RebuildOf(program, program.node(args[0]));
        break;
      case NameUse::kTensorOfType:
        at = InnerRebuild(program, args);
        break;
      default:
        return at;
    }
  }
  return std::nullopt;
}

// Returns "torch.distributed.tensor.DTensor" for a call of
// _rebuild_wrapper_subclass.
std::string ClassOf(const Program& program, const Rebuild& rebuild) {
  if (rebuild.args->empty()) return "";
  const Node& type = program.node(rebuild.args->front());
  return type.kind == NodeKind::kGlobal
             ? Abbreviated(program.global(type).FullName())
             : "";
}

}  // namespace

std::optional<TensorCall> TensorCallOf(const Program& program,
                                       const Node& node) {
  TensorCall call;
  const auto found = Innermost(program, node, call.want_dtype);
  const bool is_tensor = found && (found->use == NameUse::kTensorV1 ||
                                   found->use == NameUse::kTensorV2 ||
                                   found->use == NameUse::kTensorV3);
  if (!is_tensor) return std::nullopt;
  call.use = found->use;
  call.args = found->args;
  return call;
}

Status CheckHasElements(const Program& program, const Node& node) {
  std::string_view want_dtype;
  const auto found = Innermost(program, node, want_dtype);
  if (!found) return Status();
  if (found->use == NameUse::kQuantizedTensor) {
    return UnimplementedError(
        "pickle: a quantized tensor, which is not read; save "
        "tensor.dequantize(), or tensor.int_repr() with its scales");
  }
  if (found->use != NameUse::kWrapperSubclass) return Status();
  const std::string name = ClassOf(program, *found);
  if (name.ends_with(".DTensor")) {
    return UnimplementedError(
        "pickle: a DTensor, of which the file has only one rank's part; save "
        "tensor.full_tensor(), or all ranks' parts with "
        "torch.distributed.checkpoint or holdfast.torch.save");
  }
  return UnimplementedError(
      "pickle: a tensor of class " + name +
      ", whose elements only that class can give; save it as a plain tensor");
}

}  // namespace holdfast::pickle
