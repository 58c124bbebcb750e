// How leaves are restored: Orbax's RestoreArgs and related types as plain data.
//
//   RestoreArgsMap args;
//   args["params.w"] = ArrayRestoreArgs{.sharding = rows};
//   args["step"] = RestoreArgs{.restore_type = RestoreType::kInt};
//
// Thread-safety: values. Units: shapes in elements.
// Errors: CheckRestoreArgs refuses contradictory arguments; nothing else fails.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "holdfast/dtype.h"
#include "holdfast/export.h"
#include "holdfast/sharding.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"

namespace holdfast HOLDFAST_EXPORT {

// The type that a leaf becomes, whatever it was saved as.
enum class RestoreType : uint8_t {
  kAsSaved,
  kNumpy,     // np.ndarray: a plain host array
  kJaxArray,  // an array with a sharding
  kInt,       // scalars, converted
  kFloat,
  kBool,
  kString,
};

struct RestoreArgs {
  RestoreType restore_type = RestoreType::kAsSaved;
  // Elements are cast to this dtype, as TensorStore casts. Absent: no cast.
  std::optional<DType> dtype;
};

struct ArrayRestoreArgs {
  RestoreType restore_type = RestoreType::kJaxArray;
  std::optional<DType> dtype;
  // `mesh` and `mesh_axes` together make a NamedSharding, which overrides
  // `sharding`. If all three are absent, the sharding recorded in `_sharding`
  // is used.
  std::optional<Mesh> mesh;
  std::optional<PartitionSpec> mesh_axes;
  std::optional<Sharding> sharding;
  // Two names for the same shape, as in Orbax; if both are given, they must
  // match.
  std::optional<Shape> global_shape;
  std::optional<Shape> shape;
  // If true, a shape other than the stored shape is refused. If false, the
  // array is padded with zeros, or truncated, at the end of each dimension.
  bool strict = true;
};

// In Orbax, only one replica reads the data. With a single process, the same as
// ArrayRestoreArgs.
struct SingleReplicaArrayRestoreArgs : ArrayRestoreArgs {
  std::optional<Sharding> single_replica_sharding;
  // Ignored; older releases of Orbax had these. The handler's options are used.
  std::optional<int64_t> replica_axis_index = 0;
  std::optional<int64_t> primary_replica_id = 0;
};

using AnyRestoreArgs =
    std::variant<RestoreArgs, ArrayRestoreArgs, SingleReplicaArrayRestoreArgs>;
// By parameter name (keys joined with "."); missing names get the defaults.
using RestoreArgsMap = std::map<std::string, AnyRestoreArgs>;

// Returns the dtype that the arguments request, whatever their type.
std::optional<DType> RestoreDType(const AnyRestoreArgs& args);
RestoreType RestoreTypeOf(const AnyRestoreArgs& args);
// Returns null for plain RestoreArgs.
const ArrayRestoreArgs* AsArrayRestoreArgs(const AnyRestoreArgs& args);

// Returns the sharding given by `mesh` and `mesh_axes`, or else by `sharding`.
std::optional<Sharding> WantedSharding(const ArrayRestoreArgs& args);

// Fails with InvalidArgument "If `shape` and `global_shape` are both provided,
// they must match." A mesh without mesh_axes, or the reverse, is accepted:
// Orbax ignores it.
Status CheckRestoreArgs(const AnyRestoreArgs& args);

}  // namespace holdfast
