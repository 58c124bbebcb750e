// Makes a safetensors model from links to the safetensors files of an Orbax
// checkpoint. The checkpoint must have been saved with SaveOptions::also or be
// a view of safetensors.
//
// Thread-safety: one call per target path. Units: bytes.
// Errors: InvalidArgument for a checkpoint without such files, and for a leaf
// that differs from the tensor of its name in them, with advice; otherwise
// those of View.
#pragma once

#include <string>

#include "holdfast/checkpoint.h"
#include "holdfast/tools/view.h"
#include "stores/place/place.h"

namespace holdfast {

// `source_directory` is the checkpoint's directory.
Result<ViewResult> ViewAsSafetensors(const Checkpoint& source,
                                     const std::string& source_directory,
                                     const Place& target,
                                     const ViewOptions& options);

}  // namespace holdfast
