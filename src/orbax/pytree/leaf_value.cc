#include "orbax/pytree/leaf_value.h"

#include <array>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/tensor/copy.h"
#include "holdfast/sharding.h"
#include "orbax/handlers/sharded_read.h"

namespace holdfast {
namespace {

Scalar ConvertedScalar(const ConstArrayView& element, DType dtype) {
  Scalar scalar;
  scalar.dtype = dtype;
  ConvertStrided(element, {dtype, scalar.bytes.data(), {}, {}});
  return scalar;
}

Result<Array> CastArray(const Array& array, std::optional<DType> dtype) {
  if (!dtype || *dtype == array.dtype()) return array;
  HF_ASSIGN_OR_RETURN(Array cast, Array::Allocate(*dtype, array.shape()));
  ConvertStrided(array.view(), cast.mutable_view());
  return cast;
}

Result<Array> Reshape(const Array& array, const std::optional<Shape>& shape) {
  if (!shape || *shape == array.shape()) return array;
  if (ElementCount(*shape) != array.element_count()) {
    return InvalidArgumentError("cannot reshape array of size " +
                                std::to_string(array.element_count()) +
                                " into shape " + ShapeToString(*shape));
  }
  HF_ASSIGN_OR_RETURN(Array copy,
                      Array::Allocate(array.dtype(), array.shape()));
  CopyStrided(array.view(), copy.mutable_view());
  const Shape strides = ContiguousStrides(*shape, DTypeBytes(array.dtype()));
  return Array::Borrow({array.dtype(), copy.view().data, *shape, strides},
                       std::make_shared<const Array>(copy));
}

// Returns the array divided into shards that share its memory.
Result<Tree> Shard(const Array& array, const ArrayRestoreArgs& args) {
  const std::optional<Sharding> sharding = WantedSharding(args);
  if (!sharding) return NoShardingError();
  HF_ASSIGN_OR_RETURN(const auto device_shards,
                      ShardBoxes(*sharding, array.shape()));
  const auto owner = std::make_shared<const Array>(array);
  LeafPlacement placement{array.shape(), {}, {}};
  std::vector<ArrayShard> shards;
  for (const DeviceShard& shard : device_shards) {
    if (shard.replica_id != 0) continue;
    placement.boxes.push_back({shard.origin, shard.shape});
    shards.push_back(
        {shard.origin,
         Array::Borrow(Subview(array.view(), placement.boxes.back()), owner)});
  }
  placement.traits = std::make_shared<const ArrayTraits>(
      ArrayTraits{ShardingToJson(*sharding), "", {}});
  return JaxArrayOf(placement, array.dtype(), std::move(shards));
}

Result<Tree> ConvertArray(const Array& value, const AnyRestoreArgs& args) {
  HF_ASSIGN_OR_RETURN(const Array cast, CastArray(value, RestoreDType(args)));
  const ArrayRestoreArgs* array_args = AsArrayRestoreArgs(args);
  if (array_args == nullptr) return Tree(cast);
  HF_ASSIGN_OR_RETURN(const Array shaped,
                      Reshape(cast, array_args->global_shape));
  return Shard(shaped, *array_args);
}

}  // namespace

Result<DType> ResultDType(DType stored, std::optional<DType> wanted) {
  if (!wanted) return stored;
  if (*wanted == DType::kBool && DTypeKindOf(stored) == DTypeKind::kComplex) {
    return InvalidArgumentError("Source does not support reading.");
  }
  return *wanted;
}

void FillZeros(const ArrayView& view) {
  const std::array<char, 16> zero{};
  FillStrided(view, zero.data());
}

Tree JaxArrayOf(const LeafPlacement& placement, DType dtype,
                std::vector<ArrayShard> shards) {
  if (shards.size() == 1 && shards.front().array.shape() == placement.shape) {
    return Tree::JaxArray(std::move(shards.front().array), placement.traits);
  }
  return Tree::ShardedArray(dtype, placement.shape, std::move(shards),
                            placement.traits);
}

Result<Tree> ConvertValue(const Tree& value, const AnyRestoreArgs& args) {
  if (!value.is_leaf()) return value;
  if (value.leaf_kind() == LeafKind::kArray) {
    return ConvertArray(value.array(), args);
  }
  const std::optional<DType> dtype = RestoreDType(args);
  if (value.leaf_kind() != LeafKind::kScalar || !dtype) return value;
  const Scalar& scalar = value.scalar();
  return Tree(
      ConvertedScalar({scalar.dtype, scalar.bytes.data(), {}, {}}, *dtype));
}

}  // namespace holdfast
