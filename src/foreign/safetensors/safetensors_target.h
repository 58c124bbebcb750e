// Writes safetensors: one file, or several with an index.
//
// One file is model.safetensors. Several files have at most shard_bytes_max
// bytes each (default 5 GB; a larger tensor has its own file), and are named
// and filled as in HF's libraries. In a file, tensors are in the order of the
// reference writer: wide dtypes first, then by name.
//
// Scalars are tensors without axes; long texts and objects are uint8 tensors.
// The sidecar has what safetensors cannot express. If the source's custom
// metadata is an object of strings, as in a safetensors source, its entries
// become `__metadata__` again.
//
// Thread-safety, units, errors: as target.h.
#pragma once

#include <memory>

#include "foreign/extents/target.h"

namespace holdfast {

std::unique_ptr<FormatTarget> MakeSafetensorsTarget();

}  // namespace holdfast
