#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "holdfast/tools/torch_file.h"

namespace holdfast {
namespace {

std::string At(const std::string& path) {
  return path.empty() ? "the value" : "\"" + path + "\"";
}

std::string Inside(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

Result<PickleValue> ScalarValue(const Scalar& scalar) {
  if (!scalar.is_python) {
    Array array = Array::FromBytes(scalar.dtype, {}, scalar.bytes.data());
    const std::string dtype = PickleValue::Ndarray(array).numpy_dtype();
    return PickleValue::Numpy(PickleKind::kNumpyScalar, std::move(array), dtype,
                              {});
  }
  switch (scalar.dtype) {
    case DType::kBool:
      return PickleValue::Bool(scalar.As<bool>());
    case DType::kInt64:
      return PickleValue::Int(scalar.As<int64_t>());
    case DType::kFloat64:
      return PickleValue::Float(scalar.As<double>());
    case DType::kComplex128: {
      double parts[2];
      std::memcpy(parts, scalar.bytes.data(), sizeof parts);
      return PickleValue::Complex(parts[0], parts[1]);
    }
    default:
      return InvalidArgumentError("pickle: a Python scalar of dtype " +
                                  std::string(DTypeName(scalar.dtype)));
  }
}

Result<PickleValue> LeafValue(const Tree& tree, const std::string& path) {
  switch (tree.leaf_kind()) {
    case LeafKind::kNone:
      return PickleValue::None();
    case LeafKind::kString:
      return PickleValue::String(tree.text());
    case LeafKind::kBytes:
      return PickleValue::Bytes(tree.text());
    case LeafKind::kScalar:
      return ScalarValue(tree.scalar());
    case LeafKind::kArray:
      if (!tree.is_sharded() && tree.reader() == nullptr) {
        return PickleValue::Tensor(tree.array());
      }
      break;
    default:
      break;
  }
  return InvalidArgumentError("pickle: " + At(path) +
                              " has no value here: it is a placeholder, a "
                              "reference, or an array that is not in memory");
}

PickleValue KeyValue(const Tree& dict, size_t i) {
  const std::string& key = dict.keys()[i];
  return dict.key_kind(i) == KeyKind::kInteger
             ? PickleValue::Int(*ParseNumber<int64_t>(key))
             : PickleValue::String(key);
}

Result<PickleValue> ValueOfTree(const Tree& tree, const std::string& path,
                                int depth) {
  if (depth > kPickleDepthMax) {
    return InvalidArgumentError("pickle: " + At(path) +
                                " is nested deeper than " +
                                std::to_string(kPickleDepthMax));
  }
  if (tree.is_leaf()) return LeafValue(tree, path);
  std::vector<PickleValue> items;
  std::vector<PickleValue::Pair> pairs;
  for (size_t i = 0; i < tree.size(); ++i) {
    const std::string key =
        tree.is_mapping() ? tree.keys()[i] : std::to_string(i);
    HF_ASSIGN_OR_RETURN(
        PickleValue child,
        ValueOfTree(tree.children()[i], Inside(path, key), depth + 1));
    if (tree.kind() == NodeKind::kDict) {
      pairs.emplace_back(KeyValue(tree, i), std::move(child));
    } else {
      items.push_back(std::move(child));
    }
  }
  if (tree.kind() == NodeKind::kDict) {
    return PickleValue::Dict(std::move(pairs));
  }
  return tree.kind() == NodeKind::kList ? PickleValue::List(std::move(items))
                                        : PickleValue::Tuple(std::move(items));
}

Status NoTree(const PickleValue& value, const std::string& path) {
  return UnimplementedError("pickle: " + At(path) + " is a " +
                            std::string(PickleKindName(value.kind())) +
                            ", which a tree cannot hold");
}

Result<Tree> ItemsTree(const PickleValue& value, const std::string& path);
Result<Tree> PairsTree(const PickleValue& value, const std::string& path);

Result<Tree> NumpyScalarTree(const PickleValue& value,
                             const std::string& path) {
  const Array& array = value.array();
  if (!array.shape().empty()) return NoTree(value, path);
  Scalar scalar;
  scalar.dtype = array.dtype();
  scalar.is_python = false;
  std::memcpy(scalar.bytes.data(), array.view().data,
              DTypeBytes(array.dtype()));
  return Tree(scalar);
}

Result<Tree> TreeAt(const PickleValue& value, const std::string& path) {
  switch (value.kind()) {
    case PickleKind::kNone:
      return Tree::None();
    case PickleKind::kBool:
      return Tree(value.bool_value());
    case PickleKind::kInt:
      if (value.int_value()) return Tree(*value.int_value());
      return NoTree(value, path);
    case PickleKind::kFloat:
      return Tree(value.float_value());
    case PickleKind::kComplex:
      return Tree(std::complex<double>(value.float_value(), value.imaginary()));
    case PickleKind::kString:
      return Tree(value.text());
    case PickleKind::kBytes:
      return Tree::ByteString(value.text());
    case PickleKind::kList:
    case PickleKind::kTuple:
    case PickleKind::kTorchSize:
      return ItemsTree(value, path);
    case PickleKind::kDict:
    case PickleKind::kOrderedDict:
      return PairsTree(value, path);
    case PickleKind::kTensor:
      return Tree(value.array());
    case PickleKind::kNdarray:
      if (value.array().shape() != value.shape()) return NoTree(value, path);
      return Tree(value.array());
    case PickleKind::kNumpyScalar:
      return NumpyScalarTree(value, path);
    default:
      return NoTree(value, path);
  }
}

Result<Tree> ItemsTree(const PickleValue& value, const std::string& path) {
  std::vector<Tree> items;
  for (const PickleValue& item : value.items()) {
    HF_ASSIGN_OR_RETURN(
        Tree child, TreeAt(item, Inside(path, std::to_string(items.size()))));
    items.push_back(std::move(child));
  }
  return value.is(PickleKind::kList) ? Tree::List(std::move(items))
                                     : Tree::Tuple(std::move(items));
}

Result<Tree> PairsTree(const PickleValue& value, const std::string& path) {
  Tree dict = Tree::Dict();
  for (const auto& [key, item] : value.pairs()) {
    const bool is_integer = key.is(PickleKind::kInt) && key.int_value();
    if (!is_integer && !key.is(PickleKind::kString)) {
      return UnimplementedError("pickle: " + At(path) + " has a key that is " +
                                std::string(PickleKindName(key.kind())) + " " +
                                PickleValueToJson(key) +
                                ", which a tree cannot hold");
    }
    std::string text =
        is_integer ? std::to_string(*key.int_value()) : key.text();
    HF_ASSIGN_OR_RETURN(Tree child, TreeAt(item, Inside(path, text)));
    dict.Add(std::move(text), std::move(child),
             is_integer ? KeyKind::kInteger : KeyKind::kName);
  }
  return dict;
}

}  // namespace

Result<PickleValue> PickleValueOf(const Tree& tree) {
  return ValueOfTree(tree, "", 1);
}

Result<Tree> TreeOf(const PickleValue& value) { return TreeAt(value, ""); }

}  // namespace holdfast
