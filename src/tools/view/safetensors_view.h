// A safetensors model by links to the files of an Orbax checkpoint that is one
// already: saved so (SaveOptions::also), or itself a view of safetensors.
//
// Thread-safety: one call a target path. Units: bytes.
// Errors: InvalidArgument for a checkpoint without such files, or one of whose
// leaves is not the tensor of its name in them, naming it and what to do
// instead; otherwise those of View.
#pragma once

#include <string>

#include "holdfast/checkpoint.h"
#include "holdfast/tools/view.h"
#include "stores/place/place.h"

namespace holdfast {

// `source_directory`: of the checkpoint.
Result<ViewResult> ViewAsSafetensors(const Checkpoint& source,
                                     const std::string& source_directory,
                                     const Place& target,
                                     const ViewOptions& options);

}  // namespace holdfast
