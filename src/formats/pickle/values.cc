#include "formats/pickle/values.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "formats/pickle/key_text.h"
#include "formats/pickle/numpy_dtype.h"
#include "formats/pickle/numpy_values.h"
#include "formats/pickle/pickle_reader.h"
#include "ground/base/status_macros.h"
#include "ground/tensor/copy.h"

namespace holdfast::pickle {
namespace {

// Even small files may expand to this size.
constexpr uint64_t kExpansionFreeBytes = uint64_t{64} << 20;

class ValueBuilder {
 public:
  ValueBuilder(const Program& program, const ValueOptions& options)
      : program_(program),
        options_(options),
        weight_max_(kExpansionFreeBytes +
                    kPickleExpansionMax * options.source_bytes) {}

  Result<PickleValue> Make(NodeIndex index);

 private:
  enum class State : uint8_t { kNew, kOpen, kDone };
  struct Made {
    State state = State::kNew;
    uint16_t height = 0;
    uint64_t weight = 0;  // bytes if everything shared is repeated
    PickleValue value;
  };
  using Values = std::vector<PickleValue>;
  using Pairs = std::vector<PickleValue::Pair>;
  using Indices = std::vector<NodeIndex>;

  const Node& node(NodeIndex index) const { return program_.node(index); }
  const Indices& ArgsOf(const Object& object) const {
    return node(object.args).children;
  }
  Status Weigh(uint64_t bytes);

  Result<PickleValue> MakeNew(const Node& node);
  Result<PickleValue> MakeObject(const Node& node);
  Result<PickleValue> MakeObjectOf(const Global& cls, const Object& object,
                                   const Indices& args);
  Result<PickleValue> MakeGlobal(const Global& global);
  Result<PickleValue> MakeTensor(TensorParts parts);
  Result<PickleValue> MakeTensorOfNumpy(const Indices& args);
  Result<PickleValue> MakeLayout(const Global& cls, const Object& object,
                                 const Indices& args);
  Result<PickleValue> MakeNumpy(const Node& node);
  Result<PickleValue> MakeText(PickleKind kind, const Global& cls,
                               const Indices& args);
  Result<PickleValue> MakeSet(PickleKind kind, const Global& cls,
                              const Indices& args);
  Result<PickleValue> MakeComplex(const Indices& args);
  Result<PickleValue> MakeOrderedDict(const Object& object,
                                      const Indices& args);
  Result<PickleValue> MakeNamespace(const Object& object, const Indices& args);
  Result<PickleValue> MakeBytesIO(const Object& object);
  Result<PickleValue> MakeDevice(const Indices& args);
  Result<PickleValue> MakeSize(const Indices& args);
  Result<PickleValue> MakeEnumByName(const Indices& args);
  Result<PickleValue> MakeRecord(const Global& cls, const Object& object,
                                 const Indices& args);
  Result<Values> MakeItems(const Indices& indices);
  Result<Pairs> MakePairs(const Indices& indices);
  Status CheckHashable(const Values& values) const;

  const Program& program_;
  const ValueOptions& options_;
  // A map, not one entry per node, since only a small part of a large program
  // may be requested.
  std::unordered_map<NodeIndex, Made> made_;
  uint64_t weight_max_;
  // The weight of the current node and of the nodes inside it.
  uint64_t weight_ = 0;
  int depth_ = 0;
  int height_ = 0;
};

Status Refuse(const Global& global) {
  return PermissionDeniedError("pickle refers to " + global.FullName() +
                               ", which holdfast does not run");
}

Status BadObject(const Global& cls, const std::string& what) {
  return DataLossError("pickle: an object of " + cls.FullName() + " " + what);
}

bool IsBare(const Object& object) {
  return !object.state && object.items.empty() && object.pairs.empty();
}

// Returns the object as copyreg makes it: by cls.__new__, not by a call of the
// class.
Object Uncalled(Object object) {
  object.is_called = false;
  return object;
}

Status ValueBuilder::Weigh(uint64_t bytes) {
  if (__builtin_add_overflow(weight_, bytes, &weight_)) weight_ = UINT64_MAX;
  if (weight_ <= weight_max_) return {};
  return DataLossError(
      "pickle: its value is more than " + std::to_string(kPickleExpansionMax) +
      " times larger than its " + std::to_string(options_.source_bytes) +
      " bytes, because it holds the same parts again and again");
}

Result<PickleValue> ValueBuilder::Make(NodeIndex index) {
  Made& made = made_[index];
  if (made.state == State::kOpen) {
    return UnimplementedError(
        "pickle: a value contains itself, which is not read");
  }
  if (depth_ + made.height >= kPickleDepthMax) {
    return DataLossError("pickle: values are nested deeper than " +
                         std::to_string(kPickleDepthMax));
  }
  if (made.state == State::kDone) {
    height_ = std::max<int>(height_, made.height);
    HF_RETURN_IF_ERROR(Weigh(made.weight));
    return made.value;
  }
  made.state = State::kOpen;
  const uint64_t outer_weight = std::exchange(weight_, 0);
  const int outer_height = std::exchange(height_, 0);
  ++depth_;
  HF_RETURN_IF_ERROR(Weigh(sizeof(PickleValue) + node(index).text.size()));
  auto value = MakeNew(node(index));
  --depth_;
  if (!value.ok()) return value.status();
  made.value = std::move(value).value();
  made.state = State::kDone;
  made.height = static_cast<uint16_t>(height_ + 1);
  made.weight = weight_;
  height_ = std::max<int>(outer_height, made.height);
  weight_ = outer_weight;
  HF_RETURN_IF_ERROR(Weigh(made.weight));
  return made.value;
}

Result<PickleValue> ValueBuilder::MakeNew(const Node& node) {
  switch (node.kind) {
    case NodeKind::kNone:
      return PickleValue::None();
    case NodeKind::kBool:
      return PickleValue::Bool(node.number != 0);
    case NodeKind::kInt:
      return PickleValue::Int(node.number);
    case NodeKind::kBigInt:
      return PickleValue::IntOfBytes(node.text);
    case NodeKind::kFloat:
      return PickleValue::Float(node.real);
    case NodeKind::kString:
      return PickleValue::String(std::string(node.text));
    case NodeKind::kBytes:
      return PickleValue::Bytes(std::string(node.text));
    case NodeKind::kByteArray:
      return PickleValue::Text(PickleKind::kByteArray, std::string(node.text));
    case NodeKind::kList:
    case NodeKind::kTuple: {
      HF_ASSIGN_OR_RETURN(Values items, MakeItems(node.children));
      return PickleValue::Items(
          node.kind == NodeKind::kList ? PickleKind::kList : PickleKind::kTuple,
          std::move(items));
    }
    case NodeKind::kSet:
    case NodeKind::kFrozenSet: {
      HF_ASSIGN_OR_RETURN(Values items, MakeItems(node.children));
      HF_RETURN_IF_ERROR(CheckHashable(items));
      return PickleValue::Items(node.kind == NodeKind::kSet
                                    ? PickleKind::kSet
                                    : PickleKind::kFrozenSet,
                                std::move(items));
    }
    case NodeKind::kDict: {
      HF_ASSIGN_OR_RETURN(Pairs pairs, MakePairs(node.children));
      return PickleValue::Dict(std::move(pairs));
    }
    case NodeKind::kGlobal:
      return MakeGlobal(program_.global(node));
    case NodeKind::kObject:
      return MakeObject(node);
    case NodeKind::kPersistent: {
      HF_ASSIGN_OR_RETURN(TensorParts parts, ParseStorage(program_, node));
      return MakeTensor(std::move(parts));
    }
    case NodeKind::kRefused:
      return program_.refusals[static_cast<size_t>(node.number)];
  }
  return InternalError("pickle: unknown node");
}

Result<ValueBuilder::Values> ValueBuilder::MakeItems(const Indices& indices) {
  Values values;
  values.reserve(indices.size());
  for (const NodeIndex index : indices) {
    HF_ASSIGN_OR_RETURN(PickleValue value, Make(index));
    values.push_back(std::move(value));
  }
  return values;
}

// If keys are equal, the last value is kept, in the position of the first key.
Result<ValueBuilder::Pairs> ValueBuilder::MakePairs(const Indices& indices) {
  Pairs pairs;
  pairs.reserve(indices.size() / 2);
  std::unordered_map<std::string, size_t> places;
  for (size_t i = 0; i + 1 < indices.size(); i += 2) {
    HF_ASSIGN_OR_RETURN(PickleValue key, Make(indices[i]));
    HF_ASSIGN_OR_RETURN(PickleValue value, Make(indices[i + 1]));
    auto text = KeyText(key);
    if (!text) {
      return DataLossError("pickle: a dict has a " +
                           std::string(PickleKindName(key.kind())) +
                           " as a key");
    }
    const auto [place, is_new] =
        places.try_emplace(*std::move(text), pairs.size());
    if (is_new) {
      pairs.emplace_back(std::move(key), std::move(value));
    } else {
      pairs[place->second].second = std::move(value);
    }
  }
  return pairs;
}

Status ValueBuilder::CheckHashable(const Values& values) const {
  for (const PickleValue& value : values) {
    if (!KeyText(value)) {
      return DataLossError("pickle: a set holds a " +
                           std::string(PickleKindName(value.kind())));
    }
  }
  return {};
}

Result<PickleValue> ValueBuilder::MakeGlobal(const Global& global) {
  switch (global.use) {
    case NameUse::kCodecsEncode:
    case NameUse::kGetattr:
    case NameUse::kReconstructor:
    case NameUse::kNewobj:
      return Refuse(global);
    case NameUse::kTorchDType:
      return PickleValue::Text(PickleKind::kTorchDType, global.FullName());
    default: {
      PickleRecord record;
      record.module = global.module;
      record.name = global.name;
      return PickleValue::Record(PickleKind::kGlobal, std::move(record));
    }
  }
}

Result<PickleValue> ValueBuilder::MakeObject(const Node& object_node) {
  const Object& object = program_.object(object_node);
  const Global& callee = program_.global(node(object.callee));
  if (object.kwargs && !node(*object.kwargs).children.empty()) {
    return UnimplementedError("pickle: an object of " + callee.FullName() +
                              " is made with keyword arguments");
  }
  if (const auto call = TensorCallOf(program_, object_node)) {
    HF_ASSIGN_OR_RETURN(TensorParts parts, ParseTensor(program_, *call));
    return MakeTensor(std::move(parts));
  }
  HF_RETURN_IF_ERROR(CheckHasElements(program_, object_node));
  const Indices& args = ArgsOf(object);
  switch (callee.use) {
    case NameUse::kNdarrayReconstruct:
    case NameUse::kNdarrayFromBuffer:
    case NameUse::kNumpyScalar:
      return MakeNumpy(object_node);
    case NameUse::kReconstructor: {
      const bool is_plain =
          args.size() == 3 && node(args[0]).kind == NodeKind::kGlobal &&
          node(args[1]).kind == NodeKind::kGlobal &&
          program_.global(node(args[1])).use == NameUse::kObject &&
          node(args[2]).kind == NodeKind::kNone;
      if (!is_plain) return BadObject(callee, "is of no plain class");
      return MakeObjectOf(program_.global(node(args[0])), Uncalled(object), {});
    }
    case NameUse::kNewobj: {
      if (args.empty() || node(args[0]).kind != NodeKind::kGlobal) {
        return BadObject(callee, "has no class");
      }
      return MakeObjectOf(program_.global(node(args[0])), Uncalled(object),
                          Indices(args.begin() + 1, args.end()));
    }
    case NameUse::kGetattr:
      return MakeEnumByName(args);
    default:
      return MakeObjectOf(callee, object, args);
  }
}

Result<PickleValue> ValueBuilder::MakeObjectOf(const Global& cls,
                                               const Object& object,
                                               const Indices& args) {
  const bool may_have_parts =
      cls.use == NameUse::kOrderedDict || cls.use == NameUse::kNamespace ||
      cls.use == NameUse::kBytesIO || cls.use == NameUse::kClass ||
      cls.use == NameUse::kInertClass || cls.use == NameUse::kNumpyDType;
  if (!may_have_parts && !IsBare(object)) {
    return BadObject(cls, "is given state or items, which it cannot have");
  }
  switch (cls.use) {
    case NameUse::kCodecsEncode:
    case NameUse::kBytes:
      return MakeText(PickleKind::kBytes, cls, args);
    case NameUse::kByteArray:
      return MakeText(PickleKind::kByteArray, cls, args);
    case NameUse::kSet:
      return MakeSet(PickleKind::kSet, cls, args);
    case NameUse::kFrozenSet:
      return MakeSet(PickleKind::kFrozenSet, cls, args);
    case NameUse::kComplex:
      return MakeComplex(args);
    case NameUse::kOrderedDict:
      return MakeOrderedDict(object, args);
    case NameUse::kNamespace:
      return MakeNamespace(object, args);
    case NameUse::kBytesIO:
      return MakeBytesIO(object);
    case NameUse::kTorchDevice:
      return MakeDevice(args);
    case NameUse::kTorchSize:
      return MakeSize(args);
    case NameUse::kTorchLayout:
      return MakeLayout(cls, object, args);
    case NameUse::kTensorFromNumpy:
      return MakeTensorOfNumpy(args);
    case NameUse::kTorchRebuild:
    case NameUse::kClass:
    case NameUse::kInertClass:
    case NameUse::kNumpyDType:
      return MakeRecord(cls, object, args);
    default:
      return Refuse(cls);
  }
}

Result<PickleValue> ValueBuilder::MakeText(PickleKind kind, const Global& cls,
                                           const Indices& args) {
  if (args.empty()) return PickleValue::Text(kind, "");
  HF_ASSIGN_OR_RETURN(std::string bytes, BytesOfArgs(program_, args));
  if (args.size() > 2) return BadObject(cls, "has too many arguments");
  HF_RETURN_IF_ERROR(Weigh(bytes.size()));
  return PickleValue::Text(kind, std::move(bytes));
}

Result<PickleValue> ValueBuilder::MakeSet(PickleKind kind, const Global& cls,
                                          const Indices& args) {
  if (args.empty()) return PickleValue::Items(kind, {});
  const NodeKind held = node(args[0]).kind;
  if (args.size() != 1 ||
      (held != NodeKind::kList && held != NodeKind::kTuple)) {
    return BadObject(cls, "is not made of a list");
  }
  HF_ASSIGN_OR_RETURN(Values items, MakeItems(node(args[0]).children));
  HF_RETURN_IF_ERROR(CheckHashable(items));
  return PickleValue::Items(kind, std::move(items));
}

Result<PickleValue> ValueBuilder::MakeComplex(const Indices& args) {
  if (args.size() != 2 || node(args[0]).kind != NodeKind::kFloat ||
      node(args[1]).kind != NodeKind::kFloat) {
    return DataLossError("pickle: a complex number is not made of two floats");
  }
  return PickleValue::Complex(node(args[0]).real, node(args[1]).real);
}

// Attributes are not kept (a module's state_dict has _metadata).
Result<PickleValue> ValueBuilder::MakeOrderedDict(const Object& object,
                                                  const Indices& args) {
  Indices all;
  if (!args.empty()) {
    const Node& list = node(args[0]);
    if (args.size() != 1 ||
        (list.kind != NodeKind::kList && list.kind != NodeKind::kTuple)) {
      return DataLossError("pickle: an OrderedDict is not made of pairs");
    }
    for (const NodeIndex pair : list.children) {
      const Node& both = node(pair);
      if ((both.kind != NodeKind::kList && both.kind != NodeKind::kTuple) ||
          both.children.size() != 2) {
        return DataLossError("pickle: an OrderedDict is not made of pairs");
      }
      all.insert(all.end(), both.children.begin(), both.children.end());
    }
  }
  if (!object.items.empty()) {
    return DataLossError("pickle: an OrderedDict is appended to");
  }
  all.insert(all.end(), object.pairs.begin(), object.pairs.end());
  HF_ASSIGN_OR_RETURN(Pairs pairs, MakePairs(all));
  return PickleValue::Pairs(PickleKind::kOrderedDict, std::move(pairs));
}

Result<PickleValue> ValueBuilder::MakeNamespace(const Object& object,
                                                const Indices& args) {
  if (!args.empty() || !object.items.empty() || !object.pairs.empty()) {
    return DataLossError("pickle: a Namespace has arguments or items");
  }
  if (!object.state) return PickleValue::Pairs(PickleKind::kNamespace, {});
  const Node& state = node(*object.state);
  if (state.kind != NodeKind::kDict) {
    return DataLossError("pickle: the state of a Namespace is not a dict");
  }
  HF_ASSIGN_OR_RETURN(Pairs pairs, MakePairs(state.children));
  for (const auto& [key, value] : pairs) {
    if (!key.is(PickleKind::kString)) {
      return DataLossError("pickle: a Namespace has a name that is not a str");
    }
  }
  return PickleValue::Pairs(PickleKind::kNamespace, std::move(pairs));
}

Result<PickleValue> ValueBuilder::MakeBytesIO(const Object& object) {
  if (!object.state) return PickleValue::Text(PickleKind::kBytesIO, "");
  const Node& state = node(*object.state);
  if (state.kind != NodeKind::kTuple || state.children.empty()) {
    return DataLossError("pickle: the state of a BytesIO is not a tuple");
  }
  HF_ASSIGN_OR_RETURN(std::string bytes,
                      BytesOfNode(program_, node(state.children[0])));
  HF_RETURN_IF_ERROR(Weigh(bytes.size()));
  return PickleValue::Text(PickleKind::kBytesIO, std::move(bytes));
}

Result<PickleValue> ValueBuilder::MakeDevice(const Indices& args) {
  if (args.empty() || args.size() > 2 ||
      node(args[0]).kind != NodeKind::kString ||
      (args.size() == 2 && node(args[1]).kind != NodeKind::kInt)) {
    return DataLossError("pickle: a torch.device has no name");
  }
  std::string text(node(args[0]).text);
  if (args.size() == 2) text += ":" + std::to_string(node(args[1]).number);
  return PickleValue::Text(PickleKind::kTorchDevice, std::move(text));
}

Result<PickleValue> ValueBuilder::MakeSize(const Indices& args) {
  if (args.size() != 1) return DataLossError("pickle: a broken torch.Size");
  HF_ASSIGN_OR_RETURN(const Shape shape, ParseInts(program_, node(args[0])));
  HF_RETURN_IF_ERROR(Weigh(shape.size() * sizeof(PickleValue)));
  Values items;
  for (const int64_t extent : shape) items.push_back(PickleValue::Int(extent));
  return PickleValue::Items(PickleKind::kTorchSize, std::move(items));
}

// Makes a torch layout. torch.strided is a name; for other layouts, torch.load
// needs the call itself.
Result<PickleValue> ValueBuilder::MakeLayout(const Global& cls,
                                             const Object& object,
                                             const Indices& args) {
  const bool is_strided = args.size() == 1 &&
                          node(args[0]).kind == NodeKind::kString &&
                          node(args[0]).text == "torch.strided";
  if (!is_strided) return MakeRecord(cls, object, args);
  PickleRecord record{.module = "torch", .name = "strided"};
  return PickleValue::Record(PickleKind::kGlobal, std::move(record));
}

// Makes a tensor from a numpy array: tensors of some devices have no storages.
// If numpy lacks the dtype, the array has another dtype and is converted.
Result<PickleValue> ValueBuilder::MakeTensorOfNumpy(const Indices& args) {
  if (args.size() < 2 || node(args[1]).kind != NodeKind::kGlobal) {
    return DataLossError("pickle: a tensor of a numpy array has no dtype");
  }
  const Global& name = program_.global(node(args[1]));
  const auto dtype = DTypeOfTorchName(name.name);
  if (name.use != NameUse::kTorchDType || !dtype) {
    return UnimplementedError("pickle: a tensor is of " + name.FullName() +
                              ", which holdfast does not have");
  }
  HF_ASSIGN_OR_RETURN(const PickleValue value, Make(args[0]));
  if (!value.is(PickleKind::kNdarray) ||
      value.array().shape() != value.shape()) {
    return DataLossError("pickle: a tensor is not made of a numpy array");
  }
  if (value.array().dtype() == *dtype) {
    return PickleValue::Tensor(value.array());
  }
  HF_ASSIGN_OR_RETURN(Array converted,
                      Array::Allocate(*dtype, value.array().shape()));
  ConvertStrided(value.array().view(), converted.mutable_view());
  return PickleValue::Tensor(std::move(converted));
}

Result<PickleValue> ValueBuilder::MakeEnumByName(const Indices& args) {
  const Global& cls = program_.global(node(args[0]));
  PickleRecord record{.module = cls.module, .name = cls.name};
  record.by_name = true;
  record.args = {PickleValue::String(std::string(node(args[1]).text))};
  return PickleValue::Record(PickleKind::kEnum, std::move(record));
}

Result<PickleValue> ValueBuilder::MakeRecord(const Global& cls,
                                             const Object& object,
                                             const Indices& args) {
  PickleRecord record{.module = cls.module, .name = cls.name};
  record.is_called = object.is_called;
  HF_ASSIGN_OR_RETURN(record.args, MakeItems(args));
  if (object.state) {
    HF_ASSIGN_OR_RETURN(PickleValue state, Make(*object.state));
    record.state = std::move(state);
  }
  HF_ASSIGN_OR_RETURN(record.items, MakeItems(object.items));
  HF_ASSIGN_OR_RETURN(record.pairs, MakePairs(object.pairs));
  const bool is_enum = cls.use == NameUse::kClass && object.is_called &&
                       IsBare(object) && record.args.size() == 1;
  return PickleValue::Record(is_enum ? PickleKind::kEnum : PickleKind::kRecord,
                             std::move(record));
}

Result<PickleValue> ValueBuilder::MakeTensor(TensorParts parts) {
  if (!options_.storage) {
    return DataLossError("pickle: a tensor has no storage here");
  }
  const bool is_empty = ElementCount(parts.shape) == 0;
  HF_ASSIGN_OR_RETURN(StorageBytes storage, options_.storage(parts.storage));
  const uint64_t byte_count = static_cast<uint64_t>(ElementCount(parts.shape)) *
                              DTypeBytes(parts.dtype);
  HF_RETURN_IF_ERROR(Weigh(byte_count));
  const char* data =
      is_empty ? storage.data : storage.data + parts.offset_bytes;
  return PickleValue::Tensor(Array::Borrow(
      {parts.dtype, data, std::move(parts.shape), std::move(parts.strides)},
      std::move(storage.owner)));
}

Result<PickleValue> ValueBuilder::MakeNumpy(const Node& object_node) {
  HF_ASSIGN_OR_RETURN(PickleValue value, NumpyValueOf(program_, object_node));
  HF_RETURN_IF_ERROR(Weigh(value.array().byte_count()));
  return value;
}

}  // namespace

Result<PickleValue> ValueOf(const Program& program, NodeIndex node,
                            const ValueOptions& options) {
  return ValueBuilder(program, options).Make(node);
}

}  // namespace holdfast::pickle
