// Determines the format that a target's name implies, and the one to write.
//
// A name that ends in ".safetensors" or ".npz" means one file of that format.
// Names that imply a format that cannot be written (".pt", ".gguf", ...) are
// refused, and so is any other format under a name that implies one, because
// programs go by names.
// Thread-safety: pure functions. Errors: InvalidArgument, with advice.
#pragma once

#include <optional>
#include <string>

#include "holdfast/options.h"
#include "holdfast/status.h"

namespace holdfast {

// The format that the suffix of `target` implies; nullopt if none. ".ckpt"
// implies none, because directories have such names too.
Result<std::optional<Format>> FormatOfTargetName(const std::string& target);

// `asked` is the caller's choice; `source_format` (CheckpointInfo::format) is
// kept when neither the caller nor the name decides.
Result<Format> ChooseTargetFormat(const std::string& target,
                                  std::optional<Format> asked,
                                  const std::string& source_format);

// Whether a target's name implies a single file in a format that can be
// written.
bool NamesOneFile(const std::string& target);

// For writers of directories in `format`: refuses a name that implies a file.
Status CheckDirectoryName(const std::string& target, Format format);

}  // namespace holdfast
