// Whole leaves of an open checkpoint as Python objects, read in one pass into
// memory that is made here: a tree has tens of thousands of leaves, and a call
// or a request of Python's for each would cost more than reading them.
//
// Thread-safety: needs the GIL, which is given up while bytes are read.
// Errors: StatusError; nb::python_error for a dtype that numpy lacks.
#pragma once

#include <nanobind/nanobind.h>

#include "holdfast/checkpoint.h"
#include "holdfast/options.h"

namespace holdfast::python {

// The numpy array of each (leaf, numpy dtype to cast to or None) of `requests`.
nanobind::list ReadLeaves(const Checkpoint& checkpoint,
                          nanobind::handle requests, const RunOptions& run,
                          nanobind::handle progress);

// The tree that holdfast.load makes of the checkpoint, as it was opened.
nanobind::object LoadTree(const Checkpoint& checkpoint, const RunOptions& run,
                          nanobind::handle progress);

}  // namespace holdfast::python
