// numpy arrays to the engine's views and back, through numpy's C API: a tree
// has tens of thousands of leaves, so each way must cost well under a
// microsecond a leaf.
//
// Thread-safety: needs the GIL. Ownership: views borrow the arrays they come
// from; arrays made here own the engine's memory through a capsule.
// Errors: StatusError, or nb::python_error when numpy raised.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>

#include "holdfast/tensor.h"
#include "holdfast/tree.h"

namespace holdfast::python {

// Once, before anything else here.
void ImportNumpy();

bool IsArray(nanobind::handle object);
// REQUIRES: IsArray. np.ndarray itself, no subclass of it.
bool IsPlainArray(nanobind::handle array);
// A numpy scalar (np.float32(1)), not an array.
bool IsNumpyScalar(nanobind::handle object);
// REQUIRES: IsNumpyScalar. An np.number; not np.bool_ nor a type of ml_dtypes.
bool IsNumpyNumber(nanobind::handle scalar);
// The object's numpy dtype as its str() has it: "float32", "str64", "object".
std::string DTypeNameOf(nanobind::handle array_or_scalar);
// Null for dtypes without a stored form.
std::optional<DType> DTypeOf(nanobind::handle array);
// The dtype of a numpy dtype object.
std::optional<DType> DTypeOfDescr(nanobind::handle descr);

// The array itself when the engine can read it as it lies; a native-endian
// copy of it otherwise.
nanobind::object AsNative(nanobind::handle array);
// A copy with the same dtype and order of axes.
nanobind::object CopyArray(nanobind::handle array);
// REQUIRES: native endian; `dtype` is the array's.
ConstArrayView ViewOf(nanobind::handle array, DType dtype);
// Throws when the array is read-only, byte-swapped or of an unknown dtype.
ArrayView WritableViewOf(nanobind::handle array);
// REQUIRES: IsNumpyScalar with a stored dtype.
Scalar ScalarOf(nanobind::handle numpy_scalar, DType dtype);
// The 0-d array that a numpy scalar stands for.
nanobind::object ScalarAsArray(nanobind::handle numpy_scalar);

// numpy has the dtype itself: no import of ml_dtypes, which may fail.
bool IsBuiltin(DType dtype);
// A numpy array on the engine's memory, read-only where that is. `leaf` names
// it in errors.
nanobind::object ToNumpy(Array array, const std::string& leaf = {});
// The same with elements that numpy has no dtype for as integers of their
// width: int16 for bfloat16, uint8 for what takes a byte.
nanobind::object ToNumpyBits(Array array);
// A Python bool, int, float or complex.
nanobind::object ToPythonNumber(const Scalar& scalar,
                                const std::string& leaf = {});

}  // namespace holdfast::python
