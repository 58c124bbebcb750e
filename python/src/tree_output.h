// A loaded Tree as Python objects: dicts, lists, numpy arrays that own the
// engine's memory, Python numbers, str, bytes, None, Ellipsis.
//
// Thread-safety: needs the GIL. Errors: nb::python_error (ImportError naming
// the leaf when its dtype needs ml_dtypes and that is absent).
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/tree.h"

namespace holdfast::python {

// Integer keys are Python's ints. The arrays' memory is shared with `tree`,
// which should go away: its Python owners may write to it.
nanobind::object ToPython(const Tree& tree);
// A checkpoint's Structure(), with `value_of` of the index at each leaf. Keys
// are texts, in the order of texts, as Orbax gives them. Named tuples are
// dicts, or what namedtuple_of(module, class, fields) makes of their values,
// unless that is null.
nanobind::object ToPython(
    const Tree& structure,
    const std::function<nanobind::object(size_t)>& value_of,
    nanobind::handle namedtuple_of = {});

// Text of the engine's as a str; bytes that are no UTF-8 become surrogates.
nanobind::object ToPythonText(std::string_view text);
nanobind::list ToPythonTexts(const std::vector<std::string>& texts);

}  // namespace holdfast::python
