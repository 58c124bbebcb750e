// Converts PickleValues to Python objects, and back.
//
// Thread-safety: needs the GIL. Ownership: objects made here own their
// contents; values share the memory of numpy arrays that are in C order.
// Errors: StatusError, or nb::python_error if Python raised.
#pragma once

#include <nanobind/nanobind.h>

#include "holdfast/tools/torch_file.h"

namespace holdfast::python {

// Converts a value to Python objects. `make_tensor(array, dtype_name)` makes
// the object for a torch tensor; if it is None, tensors become numpy arrays.
nanobind::object ToPython(const PickleValue& value,
                          nanobind::handle make_tensor);

// Converts a Python object to a value. `take_tensor(object)` returns (array,
// dtype_name) for a torch tensor, and None for anything else; if it is None,
// torch tensors are not supported.
PickleValue FromPython(nanobind::handle object, nanobind::handle take_tensor);

}  // namespace holdfast::python
