// A loaded Tree as Python objects: dicts, lists, numpy arrays that own the
// engine's memory, Python numbers, str, bytes, None, Ellipsis.
//
// Thread-safety: needs the GIL. Errors: nb::python_error (ImportError naming
// the leaf when its dtype needs ml_dtypes and that is absent).
#pragma once

#include <nanobind/nanobind.h>

#include "holdfast/tree.h"

namespace holdfast::python {

// The arrays' memory is shared with `tree`, which should go away: its Python
// owners may write to it.
nanobind::object ToPython(const Tree& tree);

// Text of the engine's as a str; bytes that are no UTF-8 become surrogates.
nanobind::object ToPythonText(std::string_view text);

}  // namespace holdfast::python
