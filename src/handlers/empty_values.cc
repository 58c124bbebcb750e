#include "holdfast/orbax/type_handlers.h"
#include "tree/value_type.h"

namespace holdfast {

Result<std::string> GetEmptyValueTypestr(const Tree& value,
                                         bool support_rich_types) {
  if (value.is_none()) return std::string(kValueTypeNone);
  if (value.is_empty_container()) {
    switch (value.kind()) {
      case NodeKind::kDict:
        return std::string(kValueTypeDict);
      case NodeKind::kList:
        return std::string(kValueTypeList);
      case NodeKind::kTuple:
        return std::string(kValueTypeTuple);
      default:
        if (support_rich_types) return std::string(kValueTypeNamedTuple);
    }
  }
  return InvalidArgumentError(LeafType::OfLeaf(value).name +
                              " is not a supported empty aggregation type.");
}

bool IsEmptyTypestr(std::string_view typestr) {
  return IsEmptyValueType(typestr);
}

Result<Tree> GetEmptyValueFromTypestr(std::string_view typestr,
                                      bool support_rich_types) {
  if (typestr == kValueTypeNone) return Tree::None();
  if (typestr == kValueTypeDict) return Tree::Dict();
  if (typestr == kValueTypeList) return Tree::List();
  if (typestr == kValueTypeTuple) return Tree::Tuple();
  if (typestr == kValueTypeNamedTuple) {
    if (!support_rich_types) return Tree::None();
    return Tree::NamedTuple("orbax.checkpoint._src.metadata.empty_values",
                            "OrbaxEmptyNamedTuple");
  }
  return InvalidArgumentError("Unrecognized typestr: " + std::string(typestr) +
                              ".");
}

}  // namespace holdfast
