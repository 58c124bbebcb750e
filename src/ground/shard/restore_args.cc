#include "holdfast/restore_args.h"

#include <type_traits>

namespace holdfast {

std::optional<DType> RestoreDType(const AnyRestoreArgs& args) {
  return std::visit([](const auto& any) { return any.dtype; }, args);
}

RestoreType RestoreTypeOf(const AnyRestoreArgs& args) {
  return std::visit([](const auto& any) { return any.restore_type; }, args);
}

const ArrayRestoreArgs* AsArrayRestoreArgs(const AnyRestoreArgs& args) {
  return std::visit(
      [](const auto& any) -> const ArrayRestoreArgs* {
        using Args = std::decay_t<decltype(any)>;
        if constexpr (std::is_base_of_v<ArrayRestoreArgs, Args>) {
          return &any;
        } else {
          return nullptr;
        }
      },
      args);
}

std::optional<Sharding> WantedSharding(const ArrayRestoreArgs& args) {
  if (args.mesh && args.mesh_axes) {
    return NamedSharding{*args.mesh, *args.mesh_axes};
  }
  return args.sharding;
}

Status CheckRestoreArgs(const AnyRestoreArgs& args) {
  const ArrayRestoreArgs* array = AsArrayRestoreArgs(args);
  if (array == nullptr || !array->shape || !array->global_shape ||
      *array->shape == *array->global_shape) {
    return Status();
  }
  return InvalidArgumentError(
      "If `shape` and `global_shape` are both provided, they must match.");
}

}  // namespace holdfast
