#include "ground/tree/rebuild.h"

#include <algorithm>
#include <any>
#include <complex>
#include <numeric>
#include <sstream>
#include <utility>

#include "ground/tree/python_repr.h"

namespace holdfast {

std::string_view PythonNumberClass(const Scalar& scalar) {
  switch (scalar.dtype) {
    case DType::kBool:
      return "bool";
    case DType::kFloat64:
      return "float";
    case DType::kComplex128:
      return "complex";
    default:
      return "int";
  }
}

namespace {

const ValueMetadataEntry* EntryIn(const Tree& object) {
  return std::any_cast<ValueMetadataEntry>(&object.object());
}

std::string ScalarClass(const Scalar& scalar) {
  if (scalar.is_python) return std::string(PythonNumberClass(scalar));
  return "numpy." + std::string(DTypeName(scalar.dtype));
}

std::string LeafClass(const Tree& leaf) {
  switch (leaf.leaf_kind()) {
    case LeafKind::kArray:
      return leaf.array_kind() == ArrayKind::kJax ? "jaxlib._jax.ArrayImpl"
                                                  : "numpy.ndarray";
    case LeafKind::kScalar:
      return ScalarClass(leaf.scalar());
    case LeafKind::kString:
    case LeafKind::kReference:
      return "str";
    case LeafKind::kBytes:
      return "bytes";
    case LeafKind::kNone:
      return "NoneType";
    case LeafKind::kPlaceholder:
      return "ellipsis";
    case LeafKind::kExternal:
      break;
    case LeafKind::kObject:
      if (EntryIn(leaf) == nullptr) break;
      return "orbax.checkpoint._src.metadata.value_metadata_entry."
             "ValueMetadataEntry";
  }
  return "object";
}

template <typename T>
std::string NumberText(const Scalar& scalar) {
  std::ostringstream text;
  text.precision(17);
  text << +scalar.As<T>();
  return text.str();
}

std::string ScalarText(const Scalar& scalar) {
  switch (scalar.dtype) {
    case DType::kBool:
      return scalar.As<bool>() ? "True" : "False";
    case DType::kInt64:
      return NumberText<int64_t>(scalar);
    case DType::kInt32:
      return NumberText<int32_t>(scalar);
    case DType::kUint64:
      return NumberText<uint64_t>(scalar);
    case DType::kFloat64:
      return NumberText<double>(scalar);
    case DType::kFloat32:
      return NumberText<float>(scalar);
    default:
      return std::string(DTypeName(scalar.dtype));
  }
}

std::string ArrayText(const Tree& leaf) {
  return std::string(DTypeName(leaf.array_dtype())) +
         ShapeToString(leaf.array_shape());
}

std::string LeafText(const Tree& leaf) {
  std::string text;
  switch (leaf.leaf_kind()) {
    case LeafKind::kArray:
      return ArrayText(leaf);
    case LeafKind::kScalar:
      return ScalarText(leaf.scalar());
    case LeafKind::kString:
    case LeafKind::kReference:
    case LeafKind::kExternal:
      AppendPythonRepr(text, leaf.text());
      return text;
    case LeafKind::kBytes:
      return std::to_string(leaf.text().size()) + " bytes";
    case LeafKind::kNone:
      return "None";
    case LeafKind::kPlaceholder:
      return "Ellipsis";
    case LeafKind::kObject:
      if (const ValueMetadataEntry* entry = EntryIn(leaf)) {
        return PythonEntryText(*entry);
      }
      break;
  }
  return "object";
}

class LeafMapper {
 public:
  explicit LeafMapper(const LeafFn& fn) : fn_(fn) {}

  Tree Map(const Tree& node) {
    if (node.size() == 0) return fn_(path_, node);
    std::vector<Tree> children;
    children.reserve(node.size());
    for (size_t i = 0; i < node.size(); ++i) {
      path_.push_back(ElementOf(node, i));
      children.push_back(Map(node.children()[i]));
      path_.pop_back();
    }
    return WithChildren(node, std::move(children));
  }

 private:
  const LeafFn& fn_;
  KeyPath path_;
};

}  // namespace

std::string PythonEntryText(const ValueMetadataEntry& entry) {
  std::string text = "ValueMetadataEntry(value_type=";
  AppendPythonRepr(text, entry.value_type);
  text += ", skip_deserialize=";
  text += entry.skip_deserialize ? "True" : "False";
  text += ", write_shape=";
  text += entry.write_shape ? ShapeToString(*entry.write_shape) : "None";
  return text + ")";
}

Tree WithChildren(const Tree& node, std::vector<Tree> children) {
  if (node.kind() == NodeKind::kList) return Tree::List(std::move(children));
  if (node.kind() == NodeKind::kTuple) return Tree::Tuple(std::move(children));
  Tree made = node.kind() == NodeKind::kDict
                  ? Tree::Dict()
                  : Tree::NamedTuple(node.type_module(), node.type_name());
  for (size_t i = 0; i < children.size(); ++i) {
    made.Add(node.keys()[i], std::move(children[i]), node.key_kind(i));
  }
  return made;
}

Tree MapLeaves(const Tree& tree, const LeafFn& fn) {
  return LeafMapper(fn).Map(tree);
}

Tree RebuildWith(const Tree& tree,
                 std::unordered_map<const Tree*, Tree>& values) {
  return MapLeaves(tree, [&](const KeyPath&, const Tree& leaf) {
    const auto value = values.find(&leaf);
    return value == values.end() ? leaf : std::move(value->second);
  });
}

KeyElement ElementOf(const Tree& node, size_t i) {
  return {node.is_sequence() ? std::to_string(i) : node.keys()[i],
          node.key_kind(i)};
}

TreePath PathOf(const KeyPath& path) {
  TreePath keys;
  keys.reserve(path.size());
  for (const KeyElement& element : path) keys.push_back(element.key);
  return keys;
}

namespace {

void AppendKeyRepr(std::string& repr, const KeyElement& element) {
  if (element.kind == KeyKind::kName) {
    AppendPythonRepr(repr, element.key);
  } else {
    repr += element.key;
  }
}

}  // namespace

std::string TreePathRepr(const KeyPath& path) {
  return PythonTupleText(path, AppendKeyRepr);
}

std::string PythonClassText(const Tree& node) {
  std::string name;
  switch (node.kind()) {
    case NodeKind::kDict:
      name = "dict";
      break;
    case NodeKind::kList:
      name = "list";
      break;
    case NodeKind::kTuple:
      name = "tuple";
      break;
    case NodeKind::kNamedTuple:
      name = node.type_module() + "." + node.type_name();
      break;
    case NodeKind::kLeaf:
      name = LeafClass(node);
      break;
  }
  return "<class '" + name + "'>";
}

std::string PythonValueText(const Tree& node) {
  if (node.is_leaf()) return LeafText(node);
  std::string text;
  for (size_t i = 0; i < node.size(); ++i) {
    if (i > 0) text += ", ";
    if (node.kind() == NodeKind::kNamedTuple) text += node.keys()[i] + "=";
    if (node.kind() == NodeKind::kDict) {
      AppendKeyRepr(text, ElementOf(node, i));
      text += ": ";
    }
    text += PythonValueText(node.children()[i]);
  }
  switch (node.kind()) {
    case NodeKind::kList:
      return "[" + text + "]";
    case NodeKind::kTuple:
      return "(" + text + (node.size() == 1 ? ",)" : ")");
    case NodeKind::kNamedTuple:
      return node.type_name() + "(" + text + ")";
    default:
      return "{" + text + "}";
  }
}

std::vector<size_t> SortedChildren(const Tree& node) {
  std::vector<size_t> order(node.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (node.kind() != NodeKind::kDict) return order;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return CompareElements(node.keys()[a], node.key_kind(a), node.keys()[b],
                           node.key_kind(b)) < 0;
  });
  return order;
}

}  // namespace holdfast
