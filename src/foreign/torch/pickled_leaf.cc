#include "foreign/torch/pickled_leaf.h"

#include <complex>

namespace holdfast {
namespace {

template <typename T>
void BecomeScalar(DType dtype, T value, ExtentLeaf& leaf) {
  const Scalar scalar = Scalar::Of<T>(dtype, value, true);
  leaf.info.kind = ValueKind::kScalar;
  leaf.info.dtype = dtype;
  leaf.text = scalar.view();
}

void BecomeText(ValueKind kind, const PickleValue& value, ExtentLeaf& leaf) {
  leaf.info.kind = kind;
  leaf.text = value.text();
}

}  // namespace

bool BecomeValue(const PickleValue& value, ExtentLeaf& leaf) {
  switch (value.kind()) {
    case PickleKind::kNone:
      leaf.info.kind = ValueKind::kNone;
      return true;
    case PickleKind::kBool:
      BecomeScalar(DType::kBool, value.bool_value(), leaf);
      return true;
    case PickleKind::kInt:
      if (!value.int_value()) return false;
      BecomeScalar(DType::kInt64, *value.int_value(), leaf);
      return true;
    case PickleKind::kFloat:
      BecomeScalar(DType::kFloat64, value.float_value(), leaf);
      return true;
    case PickleKind::kComplex:
      BecomeScalar(DType::kComplex128,
                   std::complex<double>(value.float_value(), value.imaginary()),
                   leaf);
      return true;
    case PickleKind::kString:
      BecomeText(ValueKind::kString, value, leaf);
      return true;
    case PickleKind::kBytes:
      BecomeText(ValueKind::kBytes, value, leaf);
      return true;
    case PickleKind::kList:
      leaf.info.kind = ValueKind::kEmptyList;
      return value.items().empty();
    case PickleKind::kTuple:
      leaf.info.kind = ValueKind::kEmptyTuple;
      return value.items().empty();
    case PickleKind::kDict:
    case PickleKind::kOrderedDict:
      leaf.info.kind = ValueKind::kEmptyDict;
      return value.pairs().empty();
    default:
      return false;
  }
}

}  // namespace holdfast
