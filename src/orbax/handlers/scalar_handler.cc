#include <cmath>
#include <complex>
#include <cstring>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/json/text.h"
#include "ground/tensor/copy.h"
#include "holdfast/orbax/type_handlers.h"
#include "orbax/handlers/scalar_value.h"

namespace holdfast {
namespace {

template <typename T>
T ElementAs(const Array& array, DType dtype) {
  T value{};
  ConvertStrided(array.view(),
                 {dtype, reinterpret_cast<char*>(&value), {}, {}});
  return value;
}

// Returns the Python number that numpy's item() returns.
Tree PythonNumber(const Array& array) {
  switch (DTypeKindOf(array.dtype())) {
    case DTypeKind::kBool:
      return Tree(ElementAs<bool>(array, DType::kBool));
    case DTypeKind::kSigned:
      return Tree(ElementAs<int64_t>(array, DType::kInt64));
    case DTypeKind::kUnsigned: {
      const auto value = ElementAs<uint64_t>(array, DType::kUint64);
      if (value > static_cast<uint64_t>(INT64_MAX)) {
        return Tree(Scalar::Of(DType::kUint64, value, true));
      }
      return Tree(static_cast<int64_t>(value));
    }
    case DTypeKind::kFloat:
      return Tree(ElementAs<double>(array, DType::kFloat64));
    case DTypeKind::kComplex:
      break;
  }
  return Tree(ElementAs<std::complex<double>>(array, DType::kComplex128));
}

Status CannotConvert(const std::string& type) {
  return InvalidArgumentError(type +
                              "() argument must be a string, a bytes-like "
                              "object or a real number, not 'complex'");
}

Result<Tree> IntOf(double value) {
  if (std::isnan(value)) {
    return InvalidArgumentError("cannot convert float NaN to integer");
  }
  if (std::isinf(value)) {
    return OutOfRangeError("cannot convert float infinity to integer");
  }
  const double whole = std::trunc(value);
  if (whole >= -0x1p63 && whole < 0x1p63) {
    return Tree(static_cast<int64_t>(whole));
  }
  return OutOfRangeError("Python int too large to convert to C long");
}

double RealOf(const Scalar& scalar) {
  switch (scalar.dtype) {
    case DType::kBool:
      return scalar.As<bool>();
    case DType::kInt64:
      return static_cast<double>(scalar.As<int64_t>());
    case DType::kUint64:
      return static_cast<double>(scalar.As<uint64_t>());
    default:
      return scalar.As<double>();
  }
}

bool IsZero(const Scalar& scalar) {
  if (scalar.dtype == DType::kComplex128) {
    return scalar.As<std::complex<double>>() == std::complex<double>();
  }
  return RealOf(scalar) == 0;
}

std::string ReprOf(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text;
  AppendPythonJsonFloat(text, value);
  return text;
}

// Returns a part of a complex number. Python prints it without ".0".
std::string PartText(double value) {
  std::string text = ReprOf(value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

std::string ComplexText(std::complex<double> value) {
  const std::string imaginary = PartText(value.imag()) + "j";
  if (value.real() == 0 && !std::signbit(value.real())) return imaginary;
  const bool has_sign = imaginary.front() == '-';
  return "(" + PartText(value.real()) + (has_sign ? "" : "+") + imaginary + ")";
}

std::string TextOf(const Scalar& scalar) {
  switch (scalar.dtype) {
    case DType::kBool:
      return scalar.As<bool>() ? "True" : "False";
    case DType::kInt64:
      return std::to_string(scalar.As<int64_t>());
    case DType::kUint64:
      return std::to_string(scalar.As<uint64_t>());
    case DType::kComplex128:
      return ComplexText(scalar.As<std::complex<double>>());
    default:
      return ReprOf(scalar.As<double>());
  }
}

// Calls Python's constructor of the type with the number.
Result<Tree> ConvertNumber(const Tree& number, RestoreType type) {
  const Scalar& scalar = number.scalar();
  const bool is_complex = scalar.dtype == DType::kComplex128;
  switch (type) {
    case RestoreType::kBool:
      return Tree(!IsZero(scalar));
    case RestoreType::kInt:
      if (is_complex) return CannotConvert("int");
      if (scalar.dtype == DType::kUint64) return number;
      if (scalar.dtype == DType::kInt64) return number;
      return IntOf(RealOf(scalar));
    case RestoreType::kFloat:
      if (is_complex) return CannotConvert("float");
      return Tree(RealOf(scalar));
    case RestoreType::kString:
      return Tree(TextOf(scalar));
    default:
      return number;
  }
}

}  // namespace

Result<Tree> ScalarOf(const Array& element, RestoreType type) {
  return ConvertNumber(PythonNumber(element), type);
}

Result<std::vector<ValueMetadata>> ScalarHandler::Metadata(
    std::span<const ParamInfo> infos) {
  HF_ASSIGN_OR_RETURN(std::vector<ValueMetadata> metadatas,
                      NumpyHandler::Metadata(infos));
  for (ValueMetadata& metadata : metadatas) {
    const ArrayMetadata array = std::get<ArrayMetadata>(metadata);
    metadata =
        ScalarMetadata{array.name, array.directory, array.dtype, std::nullopt};
  }
  return metadatas;
}

Result<std::vector<Tree>> ScalarHandler::Deserialize(
    std::span<const ParamInfo> infos, std::span<const AnyRestoreArgs> args) {
  HF_ASSIGN_OR_RETURN(std::vector<Tree> values,
                      NumpyHandler::Deserialize(infos, args));
  for (const Tree& value : values) {
    if (value.array_shape().empty()) continue;
    return InvalidArgumentError("Restored result is not a scalar.");
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const RestoreType type =
        args.empty() ? RestoreType::kAsSaved : RestoreTypeOf(args[i]);
    const Array element = values[i].array();
    HF_ASSIGN_OR_RETURN(values[i], ScalarOf(element, type));
  }
  return values;
}

}  // namespace holdfast
