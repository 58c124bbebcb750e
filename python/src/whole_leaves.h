// Reads complete leaves of an open checkpoint as Python objects, in one pass
// into memory allocated here: a tree has tens of thousands of leaves, and a
// Python call or request for each would cost more than reading them.
//
// Thread-safety: needs the GIL, which is released while bytes are read.
// Errors: StatusError; nb::python_error for a dtype that numpy lacks.
#pragma once

#include <nanobind/nanobind.h>

#include "holdfast/checkpoint.h"
#include "holdfast/options.h"

namespace holdfast::python {

// Returns the numpy array for each (leaf, numpy dtype to cast to or None) in
// `requests`.
nanobind::list ReadLeaves(const Checkpoint& checkpoint,
                          nanobind::handle requests, const RunOptions& run,
                          nanobind::handle progress);

// Reads the tree that holdfast.load returns for the checkpoint.
nanobind::object LoadTree(const Checkpoint& checkpoint, const RunOptions& run,
                          nanobind::handle progress);

}  // namespace holdfast::python
