// How leaves are restored: Orbax's RestoreArgs and their kin, as plain data.
//
//   RestoreArgsMap args;
//   args["params.w"] = ArrayRestoreArgs{.sharding = rows};
//   args["step"] = RestoreArgs{.restore_type = RestoreType::kInt};
//
// Thread-safety: values. Units: shapes in elements.
// Errors: none here; CheckRestoreArgs says what contradicts itself.
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
  // Elements are cast to it as TensorStore casts; absent: as stored.
  std::optional<DType> dtype;
};

struct ArrayRestoreArgs {
  RestoreType restore_type = RestoreType::kJaxArray;
  std::optional<DType> dtype;
  // `mesh` with `mesh_axes` is a NamedSharding, and wins over `sharding`.
  // None at all: the sharding recorded in `_sharding`.
  std::optional<Mesh> mesh;
  std::optional<PartitionSpec> mesh_axes;
  std::optional<Sharding> sharding;
  // The same thing twice, as in Orbax; both given must be equal.
  std::optional<Shape> global_shape;
  std::optional<Shape> shape;
  // False: a shape other than the stored one pads with zeros or truncates at
  // the end of each dimension. True: it is refused.
  bool strict = true;
};

// One process reads what one replica holds; with one process the same as
// ArrayRestoreArgs.
struct SingleReplicaArrayRestoreArgs : ArrayRestoreArgs {
  std::optional<Sharding> single_replica_sharding;
  // From older releases, and ignored: the handler's options count.
  std::optional<int64_t> replica_axis_index = 0;
  std::optional<int64_t> primary_replica_id = 0;
};

using AnyRestoreArgs =
    std::variant<RestoreArgs, ArrayRestoreArgs, SingleReplicaArrayRestoreArgs>;
// By parameter name (keys joined with "."); absent names have the defaults.
using RestoreArgsMap = std::map<std::string, AnyRestoreArgs>;

// The dtype that any of them asks for.
std::optional<DType> RestoreDType(const AnyRestoreArgs& args);
RestoreType RestoreTypeOf(const AnyRestoreArgs& args);
// Null for plain RestoreArgs.
const ArrayRestoreArgs* AsArrayRestoreArgs(const AnyRestoreArgs& args);

// The sharding that `mesh` and `mesh_axes`, or else `sharding`, ask for.
std::optional<Sharding> WantedSharding(const ArrayRestoreArgs& args);

// InvalidArgument "If `shape` and `global_shape` are both provided, they must
// match."; a mesh without mesh_axes, or the reverse, is accepted (Orbax ignores
// it).
Status CheckRestoreArgs(const AnyRestoreArgs& args);

}  // namespace holdfast
