// LeafRows: the metadata of all leaves at once, for callers that look at every
// one of them.
//
// Thread-safety: needs the GIL. Errors: nb::python_error.
#pragma once

#include <nanobind/nanobind.h>

#include "holdfast/checkpoint.h"

namespace holdfast::python {

// A list of tuples: (name, key, key_is_sequence or None where no part is an
// index, value_type, skip_deserialize, dtype, shape, chunk_shape, write_shape,
// array_metadata, sharding_json, has_problem). Equal neighbours share objects.
nanobind::list LeafRows(const Checkpoint& checkpoint);

}  // namespace holdfast::python
