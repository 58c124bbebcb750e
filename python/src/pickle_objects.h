// PickleValues as Python objects, and back.
//
// Thread-safety: needs the GIL. Ownership: objects made here own what they
// hold; values share the memory of numpy arrays that lie in C order.
// Errors: StatusError, or nb::python_error when Python raised.
#pragma once

#include <nanobind/nanobind.h>

#include "holdfast/tools/torch_file.h"

namespace holdfast::python {

// `make_tensor(array, dtype_name)` makes an object of each torch tensor; None:
// numpy arrays stand for them.
nanobind::object ToPython(const PickleValue& value,
                          nanobind::handle make_tensor);

// `take_tensor(object)` returns (array, dtype_name) for a torch tensor and None
// for anything else; None means that there are no torch tensors.
PickleValue FromPython(nanobind::handle object, nanobind::handle take_tensor);

}  // namespace holdfast::python
