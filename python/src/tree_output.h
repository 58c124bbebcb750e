// Converts a loaded Tree to Python objects: dicts, lists, numpy arrays that own
// the engine's memory, Python numbers, str, bytes, None, Ellipsis.
//
// Thread-safety: needs the GIL. Errors: nb::python_error (ImportError naming
// the leaf if its dtype needs ml_dtypes, which is missing).
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/tree.h"

namespace holdfast::python {

// Converts a tree. Integer keys become Python ints. The numpy arrays share the
// memory of `tree`, which should be destroyed soon, because their Python owners
// may write to that memory.
nanobind::object ToPython(const Tree& tree);
// Converts a checkpoint's Structure(). A leaf, which is an index, becomes the
// result of `value_of` for the index. Keys are strings, in string order, as
// Orbax returns them. Named tuples become the result of namedtuple_of(module,
// class, fields) for their values, or dicts if `namedtuple_of` is null.
nanobind::object ToPython(
    const Tree& structure,
    const std::function<nanobind::object(size_t)>& value_of,
    nanobind::handle namedtuple_of = {});

// Converts the engine's text to a str; invalid UTF-8 becomes surrogates.
nanobind::object ToPythonText(std::string_view text);
nanobind::list ToPythonTexts(const std::vector<std::string>& texts);

}  // namespace holdfast::python
