// LeafRows: the metadata of all leaves in one call, for callers that look at
// every leaf.
//
// Thread-safety: needs the GIL. Errors: nb::python_error.
#pragma once

#include <nanobind/nanobind.h>

#include "holdfast/checkpoint.h"

namespace holdfast::python {

// Returns a list of tuples (name, key, layout, sharding_json, has_problem), in
// which layout is (value_type, skip_deserialize, dtype, shape, chunk_shape,
// write_shape, array_metadata). Neighbours with equal layouts share one tuple.
nanobind::list LeafRows(const Checkpoint& checkpoint);

}  // namespace holdfast::python
