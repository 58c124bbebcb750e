// Writing safetensors: one file, or several and their index.
//
// One file is model.safetensors; several, of shard_bytes_max each at most (5 GB
// where the options do not say; a larger tensor has its own), are named and
// filled as HF's libraries do it. In a file tensors lie in the order of the
// reference writer: wide dtypes first, then by name. Scalars are tensors
// without axes, long texts and objects uint8 tensors; what safetensors cannot
// say is in the sidecar. The string entries of a source's metadata (an object
// of strings, as a safetensors source has it) become `__metadata__` again.
// Thread-safety, units, errors: as target.h.
#pragma once

#include <memory>

#include "foreign/extents/target.h"

namespace holdfast {

std::unique_ptr<FormatTarget> MakeSafetensorsTarget();

}  // namespace holdfast
