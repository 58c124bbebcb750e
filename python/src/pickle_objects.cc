#include "pickle_objects.h"

#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "errors.h"
#include "numpy_arrays.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

// ---- to Python

nb::object StringObject(const std::string& utf8) {
  PyObject* text = PyUnicode_DecodeUTF8(
      utf8.data(), static_cast<Py_ssize_t>(utf8.size()), "surrogatepass");
  if (text == nullptr) nb::raise_python_error();
  return nb::steal(text);
}

nb::bytes BytesObject(const std::string& bytes) {
  return nb::bytes(bytes.data(), bytes.size());
}

nb::object IntObject(const PickleValue& value) {
  if (const auto small = value.int_value()) return nb::int_(*small);
  return nb::handle(reinterpret_cast<PyObject*>(&PyLong_Type))
      .attr("from_bytes")(BytesObject(value.int_bytes()), "little",
                          nb::arg("signed") = true);
}

// Returns `torch.name` if the program has imported torch; else null.
nb::object TorchAttribute(const char* name) {
  const nb::dict modules =
      nb::cast<nb::dict>(nb::module_::import_("sys").attr("modules"));
  if (!modules.contains("torch")) return {};
  return nb::getattr(modules["torch"], name, nb::object());
}

class Maker {
 public:
  explicit Maker(nb::handle make_tensor) : make_tensor_(make_tensor) {}

  nb::object Make(const PickleValue& value) const;

 private:
  nb::object MakeList(const PickleValue& value) const;
  nb::object MakeDict(const std::vector<PickleValue::Pair>& pairs) const;
  nb::object MakeNamespace(const PickleValue& value) const;
  nb::object MakeTensor(const PickleValue& value) const;
  nb::object MakeNumpy(const PickleValue& value) const;
  nb::object MakeTorch(const PickleValue& value) const;
  nb::object MakeRecord(const PickleValue& value) const;
  nb::object MakeText(const PickleValue& value) const;

  nb::handle make_tensor_;
};

nb::object Maker::Make(const PickleValue& value) const {
  switch (value.kind()) {
    case PickleKind::kNone:
      return nb::none();
    case PickleKind::kBool:
      return nb::bool_(value.bool_value());
    case PickleKind::kInt:
      return IntObject(value);
    case PickleKind::kFloat:
      return nb::float_(value.float_value());
    case PickleKind::kComplex:
      return nb::steal(
          PyComplex_FromDoubles(value.float_value(), value.imaginary()));
    case PickleKind::kString:
    case PickleKind::kBytes:
    case PickleKind::kByteArray:
    case PickleKind::kBytesIO:
      return MakeText(value);
    case PickleKind::kList:
      return MakeList(value);
    case PickleKind::kTuple:
      return nb::tuple(MakeList(value));
    case PickleKind::kSet:
      return nb::steal(PySet_New(MakeList(value).ptr()));
    case PickleKind::kFrozenSet:
      return nb::steal(PyFrozenSet_New(MakeList(value).ptr()));
    case PickleKind::kDict:
      return MakeDict(value.pairs());
    case PickleKind::kOrderedDict:
      return nb::module_::import_("collections")
          .attr("OrderedDict")(MakeDict(value.pairs()));
    case PickleKind::kNamespace:
      return MakeNamespace(value);
    case PickleKind::kTensor:
      return MakeTensor(value);
    case PickleKind::kNdarray:
    case PickleKind::kNumpyScalar:
      return MakeNumpy(value);
    case PickleKind::kTorchDType:
    case PickleKind::kTorchDevice:
    case PickleKind::kTorchSize:
      return MakeTorch(value);
    default:
      return MakeRecord(value);
  }
}

nb::object Maker::MakeText(const PickleValue& value) const {
  const std::string& text = value.text();
  switch (value.kind()) {
    case PickleKind::kString:
      return StringObject(text);
    case PickleKind::kBytes:
      return BytesObject(text);
    case PickleKind::kByteArray:
      return nb::steal(PyByteArray_FromStringAndSize(
          text.data(), static_cast<Py_ssize_t>(text.size())));
    default:
      return nb::module_::import_("io").attr("BytesIO")(BytesObject(text));
  }
}

nb::object Maker::MakeList(const PickleValue& value) const {
  nb::list list;
  for (const PickleValue& item : value.items()) list.append(Make(item));
  return list;
}

nb::object Maker::MakeDict(const std::vector<PickleValue::Pair>& pairs) const {
  nb::dict dict;
  for (const auto& [key, value] : pairs) dict[Make(key)] = Make(value);
  return dict;
}

nb::object Maker::MakeNamespace(const PickleValue& value) const {
  nb::object space = nb::module_::import_("argparse").attr("Namespace")();
  const nb::dict names = nb::cast<nb::dict>(space.attr("__dict__"));
  for (const auto& [key, item] : value.pairs()) names[Make(key)] = Make(item);
  return space;
}

nb::object Maker::MakeTensor(const PickleValue& value) const {
  if (make_tensor_.is_none()) return ToNumpy(value.array());
  return make_tensor_(ToNumpyBits(value.array()),
                      std::string(DTypeName(value.array().dtype())));
}

nb::object Maker::MakeNumpy(const PickleValue& value) const {
  nb::object array;
  const Array& elements = value.array();
  if (elements.shape() == value.shape()) {
    array = ToNumpy(elements);
  } else {
    nb::list shape;
    for (const int64_t extent : value.shape()) shape.append(extent);
    array = nb::module_::import_("numpy").attr("ndarray")(
        nb::tuple(shape), value.numpy_dtype().c_str(),
        nb::module_::import_("numpy").attr("ascontiguousarray")(
            ToNumpy(elements)));
  }
  if (value.is(PickleKind::kNdarray)) return array;
  return array[nb::tuple()];
}

nb::object Maker::MakeTorch(const PickleValue& value) const {
  if (value.is(PickleKind::kTorchSize)) {
    const nb::object sizes = nb::tuple(MakeList(value));
    const nb::object size = TorchAttribute("Size");
    return size.is_valid() ? size(sizes) : sizes;
  }
  const nb::object text = StringObject(value.text());
  const bool is_device = value.is(PickleKind::kTorchDevice);
  const nb::object found = TorchAttribute(
      is_device ? "device" : value.text().c_str() + value.text().find('.') + 1);
  if (!found.is_valid()) return text;
  return is_device ? found(text) : found;
}

nb::object Maker::MakeRecord(const PickleValue& value) const {
  const PickleRecord& record = value.record();
  const auto items = [&](const std::vector<PickleValue>& values) {
    return MakeList(PickleValue::List(values));
  };
  nb::list pairs;
  for (const auto& [key, item] : record.pairs) {
    pairs.append(nb::make_tuple(Make(key), Make(item)));
  }
  return nb::module_::import_("holdfast._pickle_record")
      .attr("PickleRecord")(
          StringObject(record.module), StringObject(record.name),
          nb::tuple(items(record.args)),
          record.state ? Make(*record.state) : nb::none(), items(record.items),
          pairs, std::string(PickleKindName(value.kind())), record.is_called,
          record.by_name, record.state.has_value());
}

// ---- from Python

bool IsOfClass(nb::handle object, const char* module, const char* name) {
  const nb::handle type(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())));
  return nb::cast<std::string>(type.attr("__module__")) == module &&
         nb::cast<std::string>(type.attr("__qualname__")) == name;
}

std::string Utf8Of(nb::handle text) {
  const nb::object bytes = nb::steal(
      PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogatepass"));
  if (!bytes.is_valid()) nb::raise_python_error();
  return {PyBytes_AsString(bytes.ptr()),
          static_cast<size_t>(PyBytes_Size(bytes.ptr()))};
}

std::string PickledBytes(nb::handle object) {
  const nb::object bytes = nb::steal(PyBytes_FromObject(object.ptr()));
  if (!bytes.is_valid()) nb::raise_python_error();
  return {PyBytes_AsString(bytes.ptr()),
          static_cast<size_t>(PyBytes_Size(bytes.ptr()))};
}

PickleValue IntValue(nb::handle object) {
  int overflow = 0;
  const long long small = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
  if (overflow == 0) return PickleValue::Int(small);
  const auto bits = nb::cast<size_t>(object.attr("bit_length")());
  return PickleValue::IntOfBytes(PickledBytes(object.attr("to_bytes")(
      bits / 8 + 1, "little", nb::arg("signed") = true)));
}

// Copies the elements of a numpy array in C order. REQUIRES: they are as wide
// as `dtype`.
Array CopyOf(nb::handle array, DType dtype) {
  const nb::object native = nb::module_::import_("numpy").attr("array")(
      AsNative(array), nb::arg("order") = "C", nb::arg("copy") = true);
  const ConstArrayView view = ViewOf(native, dtype);
  return Array::FromBytes(dtype, view.shape, view.data);
}

class Taker {
 public:
  explicit Taker(nb::handle take_tensor) : take_tensor_(take_tensor) {}

  PickleValue Take(nb::handle object);

 private:
  using Pairs = std::vector<PickleValue::Pair>;

  PickleValue TakeInside(nb::handle object);
  PickleValue TakeObject(nb::handle object);
  std::vector<PickleValue> Items(nb::handle iterable);
  Pairs PairsOf(nb::handle dict);
  PickleValue TakeArray(nb::handle array, bool is_scalar);
  std::optional<PickleValue> TakeTensor(nb::handle object);
  PickleValue TakeRecord(nb::handle object);

  nb::handle take_tensor_;
  int depth_ = 0;
};

PickleValue Taker::Take(nb::handle object) {
  if (depth_ >= kPickleDepthMax) {
    ThrowValueError("pickle: values are nested deeper than " +
                    std::to_string(kPickleDepthMax) +
                    ", or one contains itself");
  }
  ++depth_;
  PickleValue value = TakeInside(object);
  --depth_;
  return value;
}

PickleValue Taker::TakeInside(nb::handle object) {
  PyObject* const o = object.ptr();
  if (object.is_none()) return {};
  if (PyBool_Check(o)) return PickleValue::Bool(o == Py_True);
  if (PyLong_CheckExact(o)) return IntValue(object);
  if (PyFloat_CheckExact(o)) return PickleValue::Float(PyFloat_AsDouble(o));
  if (PyComplex_CheckExact(o)) {
    return PickleValue::Complex(PyComplex_RealAsDouble(o),
                                PyComplex_ImagAsDouble(o));
  }
  if (PyUnicode_CheckExact(o)) return PickleValue::String(Utf8Of(object));
  if (PyBytes_CheckExact(o)) return PickleValue::Bytes(PickledBytes(object));
  if (PyByteArray_CheckExact(o)) {
    return PickleValue::Text(PickleKind::kByteArray, PickledBytes(object));
  }
  if (PyList_CheckExact(o)) return PickleValue::List(Items(object));
  if (PyTuple_CheckExact(o)) return PickleValue::Tuple(Items(object));
  if (PyDict_CheckExact(o)) return PickleValue::Dict(PairsOf(object));
  if (PyAnySet_CheckExact(o)) {
    return PickleValue::Items(
        PyFrozenSet_CheckExact(o) ? PickleKind::kFrozenSet : PickleKind::kSet,
        Items(object));
  }
  return TakeObject(object);
}

PickleValue Taker::TakeObject(nb::handle object) {
  if (IsArray(object)) return TakeArray(object, false);
  if (IsNumpyScalar(object)) return TakeArray(ScalarAsArray(object), true);
  if (auto tensor = TakeTensor(object)) return *std::move(tensor);
  if (IsOfClass(object, "collections", "OrderedDict")) {
    return PickleValue::Pairs(PickleKind::kOrderedDict, PairsOf(object));
  }
  if (IsOfClass(object, "argparse", "Namespace")) {
    return PickleValue::Pairs(PickleKind::kNamespace,
                              PairsOf(object.attr("__dict__")));
  }
  if (IsOfClass(object, "_io", "BytesIO")) {
    return PickleValue::Text(PickleKind::kBytesIO,
                             PickledBytes(object.attr("getvalue")()));
  }
  if (IsOfClass(object, "torch", "Size")) {
    return PickleValue::Items(PickleKind::kTorchSize, Items(object));
  }
  if (IsOfClass(object, "torch", "dtype")) {
    return PickleValue::Text(PickleKind::kTorchDType, Utf8Of(nb::str(object)));
  }
  if (IsOfClass(object, "torch", "device")) {
    return PickleValue::Text(PickleKind::kTorchDevice, Utf8Of(nb::str(object)));
  }
  if (IsOfClass(object, "holdfast._pickle_record", "PickleRecord")) {
    return TakeRecord(object);
  }
  const nb::handle type(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())));
  ThrowValueError("pickle: an object of " +
                  nb::cast<std::string>(type.attr("__module__")) + "." +
                  nb::cast<std::string>(type.attr("__qualname__")) +
                  " cannot be written; use torch.save");
}

std::vector<PickleValue> Taker::Items(nb::handle iterable) {
  std::vector<PickleValue> items;
  for (const nb::handle item : iterable) items.push_back(Take(item));
  return items;
}

Taker::Pairs Taker::PairsOf(nb::handle dict) {
  Pairs pairs;
  for (const nb::handle pair : nb::list(dict.attr("items")())) {
    pairs.emplace_back(Take(pair[0]), Take(pair[1]));
  }
  return pairs;
}

PickleValue Taker::TakeArray(nb::handle array, bool is_scalar) {
  const PickleKind kind =
      is_scalar ? PickleKind::kNumpyScalar : PickleKind::kNdarray;
  if (const auto dtype = DTypeOf(array)) {
    const Array copy = CopyOf(array, *dtype);
    std::string name = PickleValue::Ndarray(copy).numpy_dtype();
    return PickleValue::Numpy(kind, copy, std::move(name), copy.shape());
  }
  const nb::object dtype = array.attr("dtype");
  std::string name = nb::cast<std::string>(dtype.attr("str"));
  if (name.size() < 3 || (name[0] != '<' && name[0] != '|') ||
      (name[1] != 'U' && name[1] != 'S' && name[1] != 'V') ||
      !dtype.attr("names").is_none()) {
    ThrowValueError("pickle: a numpy array of dtype " +
                    nb::cast<std::string>(nb::str(dtype)) +
                    " cannot be written");
  }
  Shape shape;
  for (const nb::handle extent : array.attr("shape")) {
    shape.push_back(nb::cast<int64_t>(extent));
  }
  Shape extents = shape;
  extents.push_back(nb::cast<int64_t>(dtype.attr("itemsize")));
  const std::string bytes = PickledBytes(array.attr("tobytes")());
  return PickleValue::Numpy(
      kind, Array::FromBytes(DType::kUint8, extents, bytes.data()),
      std::move(name), std::move(shape));
}

std::optional<PickleValue> Taker::TakeTensor(nb::handle object) {
  if (take_tensor_.is_none()) return std::nullopt;
  const nb::object taken = take_tensor_(object);
  if (taken.is_none()) return std::nullopt;
  const nb::object array = taken[0];
  const auto dtype = DTypeFromName(nb::cast<std::string>(taken[1]));
  const auto stored = DTypeOf(array);
  if (!dtype || !stored || DTypeBytes(*dtype) != DTypeBytes(*stored)) {
    ThrowValueError("pickle: a tensor of dtype " +
                    nb::cast<std::string>(taken[1]) + " cannot be written");
  }
  return PickleValue::Tensor(CopyOf(array, *dtype));
}

PickleValue Taker::TakeRecord(nb::handle object) {
  PickleRecord record;
  record.module = Utf8Of(object.attr("module"));
  record.name = Utf8Of(object.attr("name"));
  record.args = Items(object.attr("args"));
  record.items = Items(object.attr("items"));
  for (const nb::handle pair : object.attr("pairs")) {
    record.pairs.emplace_back(Take(pair[0]), Take(pair[1]));
  }
  record.is_called = nb::cast<bool>(object.attr("is_called"));
  record.by_name = nb::cast<bool>(object.attr("by_name"));
  if (nb::cast<bool>(object.attr("has_state"))) {
    record.state = Take(object.attr("state"));
  }
  const std::string kind = nb::cast<std::string>(object.attr("kind"));
  if (kind == "global") {
    return PickleValue::Record(PickleKind::kGlobal, std::move(record));
  }
  return PickleValue::Record(
      kind == "enum" ? PickleKind::kEnum : PickleKind::kRecord,
      std::move(record));
}

}  // namespace

nb::object ToPython(const PickleValue& value, nb::handle make_tensor) {
  return Maker(make_tensor).Make(value);
}

PickleValue FromPython(nb::handle object, nb::handle take_tensor) {
  return Taker(take_tensor).Take(object);
}

}  // namespace holdfast::python
