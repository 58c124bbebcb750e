// Reads complete leaves of an open checkpoint as Python objects, in one pass,
// into memory allocated here. A tree may have tens of thousands of leaves; a
// Python call for each would take longer than reading them.
//
// Thread-safety: needs the GIL, which is released while bytes are read.
// Errors: StatusError; nb::python_error for a dtype that numpy lacks.
#pragma once

#include <nanobind/nanobind.h>

#include "holdfast/checkpoint.h"
#include "holdfast/options.h"

namespace holdfast::python {

// Returns a numpy array for each of `requests`, which are pairs (leaf, numpy
// dtype to cast to, or None).
nanobind::list ReadLeaves(const Checkpoint& checkpoint,
                          nanobind::handle requests, const RunOptions& run,
                          nanobind::handle progress);

// Reads the tree that holdfast.load returns for the checkpoint.
nanobind::object LoadTree(const Checkpoint& checkpoint, const RunOptions& run,
                          nanobind::handle progress);

}  // namespace holdfast::python
