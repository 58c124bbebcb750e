#include <algorithm>
#include <array>
#include <cassert>

#include "formats/pickle/numpy_dtype.h"
#include "ground/base/coding.h"
#include "holdfast/tools/torch_file.h"

namespace holdfast {
namespace {

constexpr std::array<std::string_view, 25> kKindNames = {
    "none",         "bool",       "int",       "float",        "complex",
    "string",       "bytes",      "bytearray", "bytesio",      "list",
    "tuple",        "set",        "frozenset", "dict",         "ordered dict",
    "namespace",    "tensor",     "ndarray",   "numpy scalar", "torch dtype",
    "torch device", "torch size", "enum",      "record",       "global"};

bool IsText(PickleKind kind) {
  return (kind >= PickleKind::kString && kind <= PickleKind::kBytesIO) ||
         kind == PickleKind::kTorchDType || kind == PickleKind::kTorchDevice;
}

bool IsItems(PickleKind kind) {
  return (kind >= PickleKind::kList && kind <= PickleKind::kFrozenSet) ||
         kind == PickleKind::kTorchSize;
}

bool IsPairs(PickleKind kind) {
  return kind >= PickleKind::kDict && kind <= PickleKind::kNamespace;
}

bool IsArray(PickleKind kind) {
  return kind >= PickleKind::kTensor && kind <= PickleKind::kNumpyScalar;
}

bool IsRecord(PickleKind kind) { return kind >= PickleKind::kEnum; }

// Drops top bytes that only repeat the sign, so that each number has one
// representation.
std::string_view WithoutSignBytes(std::string_view bytes) {
  while (bytes.size() > 1) {
    const char top = bytes.back();
    const bool next_is_negative = (bytes[bytes.size() - 2] & 0x80) != 0;
    if (top != (next_is_negative ? '\xff' : '\0')) break;
    bytes.remove_suffix(1);
  }
  return bytes;
}

}  // namespace

std::string_view PickleKindName(PickleKind kind) {
  return kKindNames[static_cast<size_t>(kind)];
}

struct PickleValue::TextRep {
  std::string text;
};
struct PickleValue::ItemsRep {
  std::vector<PickleValue> items;
};
struct PickleValue::PairsRep {
  std::vector<Pair> pairs;
};
struct PickleValue::ArrayRep {
  Array array;
  std::string numpy_dtype;
  Shape shape;
};

PickleValue PickleValue::Bool(bool value) {
  PickleValue result;
  result.kind_ = PickleKind::kBool;
  result.small_.bool_value = value;
  return result;
}

PickleValue PickleValue::Int(int64_t value) {
  PickleValue result;
  result.kind_ = PickleKind::kInt;
  result.small_.int_value = value;
  return result;
}

PickleValue PickleValue::IntOfBytes(std::string_view bytes) {
  bytes = WithoutSignBytes(bytes);
  if (bytes.size() <= sizeof(int64_t)) {
    std::array<char, sizeof(int64_t)> full{};
    const bool is_negative = !bytes.empty() && (bytes.back() & 0x80) != 0;
    full.fill(is_negative ? '\xff' : '\0');
    std::copy(bytes.begin(), bytes.end(), full.begin());
    return Int(LoadLittle<int64_t>(full.data()));
  }
  PickleValue result;
  result.kind_ = PickleKind::kInt;
  result.rep_ = std::make_shared<const TextRep>(TextRep{std::string(bytes)});
  return result;
}

PickleValue PickleValue::Float(double value) {
  PickleValue result;
  result.kind_ = PickleKind::kFloat;
  result.small_.float_value = value;
  return result;
}

PickleValue PickleValue::Complex(double real, double imaginary) {
  PickleValue result;
  result.kind_ = PickleKind::kComplex;
  result.small_.float_value = real;
  result.rep_ = std::make_shared<const double>(imaginary);
  return result;
}

PickleValue PickleValue::String(std::string utf8) {
  return Text(PickleKind::kString, std::move(utf8));
}

PickleValue PickleValue::Text(PickleKind kind, std::string text) {
  assert(IsText(kind));
  PickleValue result;
  result.kind_ = kind;
  result.rep_ = std::make_shared<const TextRep>(TextRep{std::move(text)});
  return result;
}

PickleValue PickleValue::Items(PickleKind kind,
                               std::vector<PickleValue> items) {
  assert(IsItems(kind));
  PickleValue result;
  result.kind_ = kind;
  result.rep_ = std::make_shared<const ItemsRep>(ItemsRep{std::move(items)});
  return result;
}

PickleValue PickleValue::Pairs(PickleKind kind, std::vector<Pair> pairs) {
  assert(IsPairs(kind));
  PickleValue result;
  result.kind_ = kind;
  result.rep_ = std::make_shared<const PairsRep>(PairsRep{std::move(pairs)});
  return result;
}

PickleValue PickleValue::Tensor(Array array) {
  PickleValue result;
  result.kind_ = PickleKind::kTensor;
  Shape shape = array.shape();
  result.rep_ = std::make_shared<const ArrayRep>(
      ArrayRep{std::move(array), {}, std::move(shape)});
  return result;
}

PickleValue PickleValue::Ndarray(Array array) {
  Shape shape = array.shape();
  std::string name = pickle::NumpyDTypeName(array.dtype());
  return Numpy(PickleKind::kNdarray, std::move(array), std::move(name),
               std::move(shape));
}

PickleValue PickleValue::Numpy(PickleKind kind, Array array,
                               std::string numpy_dtype, Shape shape) {
  assert(kind == PickleKind::kNdarray || kind == PickleKind::kNumpyScalar);
  PickleValue result;
  result.kind_ = kind;
  result.rep_ = std::make_shared<const ArrayRep>(
      ArrayRep{std::move(array), std::move(numpy_dtype), std::move(shape)});
  return result;
}

PickleValue PickleValue::Record(PickleKind kind, PickleRecord record) {
  assert(IsRecord(kind));
  PickleValue result;
  result.kind_ = kind;
  result.rep_ = std::make_shared<const PickleRecord>(std::move(record));
  return result;
}

bool PickleValue::bool_value() const {
  assert(is(PickleKind::kBool));
  return small_.bool_value;
}

std::optional<int64_t> PickleValue::int_value() const {
  assert(is(PickleKind::kInt));
  if (rep_) return std::nullopt;
  return small_.int_value;
}

std::string PickleValue::int_bytes() const {
  assert(is(PickleKind::kInt));
  if (rep_) return static_cast<const TextRep*>(rep_.get())->text;
  std::array<char, sizeof(int64_t)> bytes{};
  StoreLittle(bytes.data(), small_.int_value);
  return std::string(WithoutSignBytes({bytes.data(), bytes.size()}));
}

double PickleValue::float_value() const {
  assert(is(PickleKind::kFloat) || is(PickleKind::kComplex));
  return small_.float_value;
}

double PickleValue::imaginary() const {
  assert(is(PickleKind::kComplex));
  return *static_cast<const double*>(rep_.get());
}

const std::string& PickleValue::text() const {
  assert(IsText(kind_));
  return static_cast<const TextRep*>(rep_.get())->text;
}

const std::vector<PickleValue>& PickleValue::items() const {
  assert(IsItems(kind_));
  return static_cast<const ItemsRep*>(rep_.get())->items;
}

const std::vector<PickleValue::Pair>& PickleValue::pairs() const {
  assert(IsPairs(kind_));
  return static_cast<const PairsRep*>(rep_.get())->pairs;
}

const Array& PickleValue::array() const {
  assert(IsArray(kind_));
  return static_cast<const ArrayRep*>(rep_.get())->array;
}

const std::string& PickleValue::numpy_dtype() const {
  assert(IsArray(kind_));
  return static_cast<const ArrayRep*>(rep_.get())->numpy_dtype;
}

const Shape& PickleValue::shape() const {
  assert(IsArray(kind_));
  return static_cast<const ArrayRep*>(rep_.get())->shape;
}

const PickleRecord& PickleValue::record() const {
  assert(IsRecord(kind_));
  return *static_cast<const PickleRecord*>(rep_.get());
}

const PickleValue* PickleValue::Find(std::string_view key) const {
  for (const Pair& pair : pairs()) {
    if (pair.first.is(PickleKind::kString) && pair.first.text() == key) {
      return &pair.second;
    }
  }
  return nullptr;
}

}  // namespace holdfast
