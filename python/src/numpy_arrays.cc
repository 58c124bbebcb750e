#include "numpy_arrays.h"

#include <nanobind/stl/string.h>

#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>

#include <array>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "errors.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

constexpr const char* kCapsuleName = "holdfast.memory";

PyArrayObject* AsArray(nb::handle object) {
  return reinterpret_cast<PyArrayObject*>(object.ptr());
}

nb::object Owned(PyObject* object) {
  if (object == nullptr) nb::raise_python_error();
  return nb::steal(object);
}

// Returns the dtype if numpy itself has it.
std::optional<DType> BuiltinDType(char kind, npy_intp element_bytes) {
  switch (kind) {
    case 'b':
      return DType::kBool;
    case 'i':
      switch (element_bytes) {
        case 1:
          return DType::kInt8;
        case 2:
          return DType::kInt16;
        case 4:
          return DType::kInt32;
        case 8:
          return DType::kInt64;
      }
      return std::nullopt;
    case 'u':
      switch (element_bytes) {
        case 1:
          return DType::kUint8;
        case 2:
          return DType::kUint16;
        case 4:
          return DType::kUint32;
        case 8:
          return DType::kUint64;
      }
      return std::nullopt;
    case 'f':
      switch (element_bytes) {
        case 2:
          return DType::kFloat16;
        case 4:
          return DType::kFloat32;
        case 8:
          return DType::kFloat64;
      }
      return std::nullopt;
    case 'c':
      switch (element_bytes) {
        case 8:
          return DType::kComplex64;
        case 16:
          return DType::kComplex128;
      }
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

std::string NameOfDescr(PyArray_Descr* descr) {
  const nb::object name =
      Owned(PyObject_GetAttrString(reinterpret_cast<PyObject*>(descr), "name"));
  return nb::cast<std::string>(nb::str(name));
}

// Returns the dtype of a type that ml_dtypes or another package has registered.
// Such types are few and their type numbers never change, so each is looked up
// by name only once.
std::optional<DType> UserDType(PyArray_Descr* descr) {
  static auto* const known =
      new std::unordered_map<int, std::optional<DType>>();
  const auto found = known->find(descr->type_num);
  if (found != known->end()) return found->second;
  const std::optional<DType> dtype = DTypeFromName(NameOfDescr(descr));
  known->emplace(descr->type_num, dtype);
  return dtype;
}

std::optional<DType> DTypeOfNumpy(PyArray_Descr* descr) {
  if (PyTypeNum_ISUSERDEF(descr->type_num)) return UserDType(descr);
  if (descr->type_num >= NPY_NTYPES_LEGACY) return std::nullopt;
  return BuiltinDType(descr->kind, PyDataType_ELSIZE(descr));
}

std::optional<int> BuiltinTypeNumber(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return NPY_BOOL;
    case DType::kInt8:
      return NPY_INT8;
    case DType::kInt16:
      return NPY_INT16;
    case DType::kInt32:
      return NPY_INT32;
    case DType::kInt64:
      return NPY_INT64;
    case DType::kUint8:
      return NPY_UINT8;
    case DType::kUint16:
      return NPY_UINT16;
    case DType::kUint32:
      return NPY_UINT32;
    case DType::kUint64:
      return NPY_UINT64;
    case DType::kFloat16:
      return NPY_FLOAT16;
    case DType::kFloat32:
      return NPY_FLOAT32;
    case DType::kFloat64:
      return NPY_FLOAT64;
    case DType::kComplex64:
      return NPY_COMPLEX64;
    case DType::kComplex128:
      return NPY_COMPLEX128;
    default:
      return std::nullopt;
  }
}

// Returns a borrowed reference, which is valid until the process exits. Imports
// ml_dtypes for a dtype that numpy lacks.
PyArray_Descr* DescrOf(DType dtype, const std::string& leaf) {
  static auto* const known = new std::array<PyArray_Descr*, kDTypeCount>();
  PyArray_Descr*& descr = (*known)[static_cast<size_t>(dtype)];
  if (descr != nullptr) return descr;
  if (const std::optional<int> number = BuiltinTypeNumber(dtype)) {
    descr = PyArray_DescrFromType(*number);
    return descr;
  }
  const nb::object made =
      nb::module_::import_("holdfast._dtypes")
          .attr("numpy_dtype")(std::string(DTypeName(dtype)), leaf);
  descr = reinterpret_cast<PyArray_Descr*>(nb::object(made).release().ptr());
  return descr;
}

void FreeCapsule(PyObject* capsule) {
  delete static_cast<Array*>(PyCapsule_GetPointer(capsule, kCapsuleName));
}

Shape ToShape(int rank, const npy_intp* values) {
  return Shape(values, values + rank);
}

// Makes an array of one element with these bytes.
nb::object ElementAsArray(DType dtype, const char* bytes,
                          const std::string& leaf) {
  PyArray_Descr* descr = DescrOf(dtype, leaf);
  Py_INCREF(reinterpret_cast<PyObject*>(descr));
  nb::object array = Owned(PyArray_NewFromDescr(
      &PyArray_Type, descr, 0, nullptr, nullptr, nullptr, 0, nullptr));
  std::memcpy(PyArray_DATA(AsArray(array)), bytes, DTypeBytes(dtype));
  return array;
}

nb::object ToNumpyAs(PyArray_Descr* descr, Array array) {
  Shape dims = array.shape();
  Shape strides = array.view().strides;
  const auto rank = static_cast<int>(dims.size());
  const bool is_read_only = array.is_read_only();
  void* data = const_cast<char*>(array.view().data);
  auto* owner = new Array(std::move(array));
  PyObject* capsule = PyCapsule_New(owner, kCapsuleName, FreeCapsule);
  if (capsule == nullptr) {
    delete owner;
    nb::raise_python_error();
  }
  static_assert(sizeof(npy_intp) == sizeof(int64_t));
  Py_INCREF(reinterpret_cast<PyObject*>(descr));
  PyObject* result = PyArray_NewFromDescr(
      &PyArray_Type, descr, rank, reinterpret_cast<npy_intp*>(dims.data()),
      reinterpret_cast<npy_intp*>(strides.data()), data,
      is_read_only ? 0 : NPY_ARRAY_WRITEABLE, nullptr);
  if (result == nullptr) {
    Py_DECREF(capsule);
    nb::raise_python_error();
  }
  // Steals the reference to the capsule, whether it succeeds or not.
  if (PyArray_SetBaseObject(AsArray(result), capsule) < 0) {
    Py_DECREF(result);
    nb::raise_python_error();
  }
  return nb::steal(result);
}

}  // namespace

void ImportNumpy() {
  if (_import_array() < 0) nb::raise_python_error();
}

bool IsArray(nb::handle object) { return PyArray_Check(object.ptr()); }

bool IsPlainArray(nb::handle array) { return PyArray_CheckExact(array.ptr()); }

bool IsNumpyNumber(nb::handle scalar) {
  return PyArray_IsScalar(scalar.ptr(), Number);
}

bool IsNumpyScalar(nb::handle object) {
  return PyArray_IsScalar(object.ptr(), Generic);
}

std::string DTypeNameOf(nb::handle array_or_scalar) {
  const nb::object descr =
      Owned(PyObject_GetAttrString(array_or_scalar.ptr(), "dtype"));
  return NameOfDescr(reinterpret_cast<PyArray_Descr*>(descr.ptr()));
}

std::optional<DType> DTypeOf(nb::handle array) {
  return DTypeOfNumpy(PyArray_DESCR(AsArray(array)));
}

std::optional<DType> DTypeOfDescr(nb::handle descr) {
  if (!PyArray_DescrCheck(descr.ptr())) return std::nullopt;
  return DTypeOfNumpy(reinterpret_cast<PyArray_Descr*>(descr.ptr()));
}

nb::object AsNative(nb::handle array) {
  if (PyArray_ISNOTSWAPPED(AsArray(array))) return nb::borrow(array);
  PyArray_Descr* native =
      PyArray_DescrNewByteorder(PyArray_DESCR(AsArray(array)), NPY_NATIVE);
  if (native == nullptr) nb::raise_python_error();
  return Owned(PyArray_CastToType(AsArray(array), native, /*fortran=*/0));
}

nb::object CopyArray(nb::handle array) {
  return Owned(PyArray_NewCopy(AsArray(array), NPY_KEEPORDER));
}

ConstArrayView ViewOf(nb::handle array, DType dtype) {
  PyArrayObject* object = AsArray(array);
  const int rank = PyArray_NDIM(object);
  return {dtype, PyArray_BYTES(object), ToShape(rank, PyArray_DIMS(object)),
          ToShape(rank, PyArray_STRIDES(object))};
}

ArrayView WritableViewOf(nb::handle array) {
  if (!IsArray(array)) ThrowValueError("a target is not a numpy array");
  PyArrayObject* object = AsArray(array);
  const std::optional<DType> dtype = DTypeOf(array);
  if (!dtype) {
    ThrowValueError("a target's dtype " + DTypeNameOf(array) +
                    " cannot be stored in a checkpoint");
  }
  if (!PyArray_ISWRITEABLE(object)) ThrowValueError("a target is read-only");
  if (!PyArray_ISNOTSWAPPED(object)) {
    ThrowValueError("a target is not in the machine's byte order");
  }
  const int rank = PyArray_NDIM(object);
  return {*dtype, PyArray_BYTES(object), ToShape(rank, PyArray_DIMS(object)),
          ToShape(rank, PyArray_STRIDES(object))};
}

Scalar ScalarOf(nb::handle numpy_scalar, DType dtype) {
  Scalar scalar{dtype, /*is_python=*/false, {}};
  PyArray_ScalarAsCtype(numpy_scalar.ptr(), scalar.bytes.data());
  return scalar;
}

nb::object ScalarAsArray(nb::handle numpy_scalar) {
  return Owned(PyArray_FromScalar(numpy_scalar.ptr(), nullptr));
}

bool IsBuiltin(DType dtype) { return BuiltinTypeNumber(dtype).has_value(); }

nb::object ToNumpy(Array array, const std::string& leaf) {
  PyArray_Descr* descr = DescrOf(array.dtype(), leaf);
  return ToNumpyAs(descr, std::move(array));
}

nb::object ToNumpyBits(Array array) {
  DType carrier = array.dtype();
  if (!IsBuiltin(carrier)) {
    carrier = DTypeBytes(carrier) == 1 ? DType::kUint8 : DType::kInt16;
  }
  PyArray_Descr* descr = DescrOf(carrier, {});
  return ToNumpyAs(descr, std::move(array));
}

nb::object ToPythonNumber(const Scalar& scalar, const std::string& leaf) {
  switch (scalar.dtype) {
    case DType::kBool:
      return nb::bool_(scalar.bytes[0] != 0);
    case DType::kInt64:
      return nb::int_(scalar.As<int64_t>());
    case DType::kFloat64:
      return nb::float_(scalar.As<double>());
    default:
      break;
  }
  const nb::object element =
      ElementAsArray(scalar.dtype, scalar.bytes.data(), leaf);
  const nb::object item = element.attr("item")();
  switch (DTypeKindOf(scalar.dtype)) {
    case DTypeKind::kSigned:
    case DTypeKind::kUnsigned:
      return Owned(PyNumber_Long(item.ptr()));
    case DTypeKind::kFloat:
      return Owned(PyNumber_Float(item.ptr()));
    default:
      return item;
  }
}

}  // namespace holdfast::python
