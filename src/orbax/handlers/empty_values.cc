#include "ground/tree/flatten.h"
#include "ground/tree/value_type.h"
#include "holdfast/orbax/type_handlers.h"

namespace holdfast {

Result<std::string> GetEmptyValueTypestr(const Tree& value,
                                         bool support_rich_types) {
  const bool is_storable =
      support_rich_types || value.kind() != NodeKind::kNamedTuple;
  if (value.is_none() || (value.is_empty_container() && is_storable)) {
    return std::string(ValueTypeOf(value, {support_rich_types}));
  }
  return InvalidArgumentError(LeafType::OfLeaf(value).name +
                              " is not a supported empty aggregation type.");
}

bool IsEmptyTypestr(std::string_view typestr) {
  return IsEmptyValueType(typestr);
}

Result<Tree> GetEmptyValueFromTypestr(std::string_view typestr,
                                      bool support_rich_types) {
  std::optional<Tree> empty = EmptyOfValueType(typestr, {support_rich_types});
  if (empty) return *std::move(empty);
  return InvalidArgumentError("Unrecognized typestr: " + std::string(typestr) +
                              ".");
}

}  // namespace holdfast
