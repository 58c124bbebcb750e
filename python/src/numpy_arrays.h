// Converts numpy arrays to the engine's views and back, through numpy's C API:
// a tree has tens of thousands of leaves, so each direction must cost well
// under a microsecond per leaf.
//
// Thread-safety: needs the GIL. Ownership: views borrow the arrays they are
// made from; arrays made here own the engine's memory through a capsule.
// Errors: StatusError, or nb::python_error if numpy raised.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>

#include "holdfast/tensor.h"
#include "holdfast/tree.h"

namespace holdfast::python {

// Call this once, before any other function here.
void ImportNumpy();

bool IsArray(nanobind::handle object);
// Returns true for np.ndarray itself, false for subclasses. REQUIRES: IsArray.
bool IsPlainArray(nanobind::handle array);
// Returns true for a numpy scalar (np.float32(1)), which is not an array.
bool IsNumpyScalar(nanobind::handle object);
// Returns true for an np.number; false for np.bool_ and ml_dtypes' types.
// REQUIRES: IsNumpyScalar.
bool IsNumpyNumber(nanobind::handle scalar);
// Returns the str() of the object's numpy dtype: "float32", "str64", "object".
std::string DTypeNameOf(nanobind::handle array_or_scalar);
// Returns nullopt for dtypes that cannot be stored.
std::optional<DType> DTypeOf(nanobind::handle array);
// The same for a numpy dtype object.
std::optional<DType> DTypeOfDescr(nanobind::handle descr);

// Returns the array itself if the engine can read its memory as it is;
// otherwise a native-endian copy.
nanobind::object AsNative(nanobind::handle array);
// Returns a copy with the same dtype and order of axes.
nanobind::object CopyArray(nanobind::handle array);
// REQUIRES: the array is native endian, and its dtype is `dtype`.
ConstArrayView ViewOf(nanobind::handle array, DType dtype);
// Throws if the array is read-only, byte-swapped or of an unknown dtype.
ArrayView WritableViewOf(nanobind::handle array);
// REQUIRES: IsNumpyScalar, and its dtype is `dtype`.
Scalar ScalarOf(nanobind::handle numpy_scalar, DType dtype);
// Converts a numpy scalar to a 0-d array.
nanobind::object ScalarAsArray(nanobind::handle numpy_scalar);

// Returns true if numpy itself has the dtype. Other dtypes need ml_dtypes,
// whose import may fail.
bool IsBuiltin(DType dtype);
// Returns a numpy array on the engine's memory, read-only if that memory is.
// `leaf` is the name used in errors.
nanobind::object ToNumpy(Array array, const std::string& leaf = {});
// Like ToNumpy, but elements of a dtype that numpy lacks become integers of the
// same width: int16 for bfloat16, uint8 for one-byte dtypes.
nanobind::object ToNumpyBits(Array array);
// Returns a Python bool, int, float or complex.
nanobind::object ToPythonNumber(const Scalar& scalar,
                                const std::string& leaf = {});

}  // namespace holdfast::python
