// The format that a target's name means, and the one that a conversion writes.
//
// A name that ends in ".safetensors" or ".npz" means one file of that format.
// Names that mean what nothing here writes (".pt", ".gguf", ...) are refused,
// and so is any other format under a name that means one, since programs go by
// names.
// Thread-safety: pure functions. Errors: InvalidArgument, with what to do.
#pragma once

#include <optional>
#include <string>

#include "holdfast/options.h"
#include "holdfast/status.h"

namespace holdfast {

// The format that `target` means by its suffix; nullopt: it means none.
// ".ckpt" is what directories are called, too, and means none here.
Result<std::optional<Format>> FormatOfTargetName(const std::string& target);

// `asked`: what the caller says; `source_format`: CheckpointInfo::format, which
// is kept where neither the caller nor the name says anything.
Result<Format> ChooseTargetFormat(const std::string& target,
                                  std::optional<Format> asked,
                                  const std::string& source_format);

// Whether the name of a target means one file of a format that is written.
bool NamesOneFile(const std::string& target);

// For what writes directories in `format`: refuses a name that means a file.
Status CheckDirectoryName(const std::string& target, Format format);

}  // namespace holdfast
