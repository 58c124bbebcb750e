#include "ground/base/type_name.h"
#include "ground/tree/rebuild.h"
#include "holdfast/orbax/type_handlers.h"

namespace holdfast {
namespace {

std::string ContainerTypeName(NodeKind kind) {
  switch (kind) {
    case NodeKind::kDict:
      return "dict";
    case NodeKind::kList:
      return "list";
    case NodeKind::kTuple:
      return "tuple";
    default:
      return "namedtuple";
  }
}

std::string LeafTypeName(const Tree& leaf) {
  switch (leaf.leaf_kind()) {
    case LeafKind::kArray:
      return leaf.array_kind() == ArrayKind::kJax ? "jax.Array" : "np.ndarray";
    case LeafKind::kScalar:
      return leaf.scalar().is_python
                 ? std::string(PythonNumberClass(leaf.scalar()))
                 : "np.number";
    case LeafKind::kString:
      return "str";
    case LeafKind::kBytes:
      return "bytes";
    case LeafKind::kPlaceholder:
      return "placeholder";
    case LeafKind::kExternal:
      return "external";
    case LeafKind::kReference:
      return "reference";
    case LeafKind::kNone:
    case LeafKind::kObject:
      break;
  }
  return "NoneType";
}

}  // namespace

LeafType LeafType::OfObject(std::type_index type) {
  return {CppTypeName(type), type};
}

LeafType LeafType::OfLeaf(const Tree& leaf) {
  if (!leaf.is_leaf()) return {ContainerTypeName(leaf.kind())};
  if (leaf.leaf_kind() == LeafKind::kObject) {
    return OfObject(leaf.object().type());
  }
  return {LeafTypeName(leaf)};
}

}  // namespace holdfast
