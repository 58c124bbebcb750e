// Makes a safetensors model from links to the files of an Orbax checkpoint
// whose files already are one: saved so (SaveOptions::also), or itself a view
// of safetensors.
//
// Thread-safety: one call per target path. Units: bytes.
// Errors: InvalidArgument for a checkpoint without such files, or with a leaf
// that is not the tensor of its name in them, naming it and what to do instead;
// otherwise those of View.
#pragma once

#include <string>

#include "holdfast/checkpoint.h"
#include "holdfast/tools/view.h"
#include "stores/place/place.h"

namespace holdfast {

// `source_directory` is the checkpoint's.
Result<ViewResult> ViewAsSafetensors(const Checkpoint& source,
                                     const std::string& source_directory,
                                     const Place& target,
                                     const ViewOptions& options);

}  // namespace holdfast
