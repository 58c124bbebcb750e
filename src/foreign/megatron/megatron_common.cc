#include "foreign/megatron/megatron_common.h"

#include <cstring>

#include "ground/base/utf8.h"

namespace holdfast {
namespace {

template <typename T>
T ElementOf(const TargetLeaf& leaf) {
  T value{};
  if (leaf.text.size() == sizeof value) {
    std::memcpy(&value, leaf.text.data(), sizeof value);
  }
  return value;
}

PickleValue ScalarValue(const TargetLeaf& leaf) {
  switch (leaf.dtype) {
    case DType::kBool:
      return PickleValue::Bool(ElementOf<char>(leaf) != 0);
    case DType::kInt32:
      return PickleValue::Int(ElementOf<int32_t>(leaf));
    case DType::kInt64:
      return PickleValue::Int(ElementOf<int64_t>(leaf));
    case DType::kFloat32:
      return PickleValue::Float(ElementOf<float>(leaf));
    case DType::kFloat64:
      return PickleValue::Float(ElementOf<double>(leaf));
    default:
      break;
  }
  if (leaf.text.size() != DTypeBytes(leaf.dtype)) return PickleValue::None();
  // torch does not support some of holdfast's dtypes. The bytes of such
  // elements are stored instead.
  switch (leaf.dtype) {
    case DType::kUint8:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kFloat16:
    case DType::kBfloat16:
    case DType::kComplex64:
    case DType::kComplex128:
      return PickleValue::Tensor(
          Array::FromBytes(leaf.dtype, {}, leaf.text.data()));
    default:
      return PickleValue::Bytes(leaf.text);
  }
}

}  // namespace

PickleValue SmallPickleValue(const TargetLeaf& leaf) {
  switch (leaf.kind) {
    case ValueKind::kScalar:
      return ScalarValue(leaf);
    case ValueKind::kString:
    case ValueKind::kJson:
      return IsValidUtf8(leaf.text) ? PickleValue::String(leaf.text)
                                    : PickleValue::Bytes(leaf.text);
    case ValueKind::kBytes:
      return PickleValue::Bytes(leaf.text);
    case ValueKind::kEmptyDict:
      return PickleValue::Dict({});
    case ValueKind::kEmptyList:
      return PickleValue::List({});
    case ValueKind::kEmptyTuple:
      return PickleValue::Tuple({});
    default:
      return PickleValue::None();
  }
}

}  // namespace holdfast
