// LeafRows: the metadata of all leaves at once, for callers that look at every
// one of them.
//
// Thread-safety: needs the GIL. Errors: nb::python_error.
#pragma once

#include <nanobind/nanobind.h>

#include "holdfast/checkpoint.h"

namespace holdfast::python {

// A list of tuples: (name, key, layout, sharding_json, has_problem), the layout
// being (value_type, skip_deserialize, dtype, shape, chunk_shape, write_shape,
// array_metadata). Neighbours that are stored alike share it.
nanobind::list LeafRows(const Checkpoint& checkpoint);

}  // namespace holdfast::python
