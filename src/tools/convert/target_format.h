// Determines the format that a target's name implies, and the one to write.
//
// A name that ends in ".safetensors" or ".npz" means one file of that format. A
// name that implies a format that cannot be written (".pt", ".gguf", ...) is
// refused. A format other than the one that the name implies is refused too,
// because programs go by names.
// Thread-safety: pure functions. Errors: InvalidArgument, with advice.
#pragma once

#include <optional>
#include <string>

#include "holdfast/options.h"
#include "holdfast/status.h"

namespace holdfast {

// Returns the format that the suffix of `target` implies, or nullopt if it
// implies none. ".ckpt" implies none, because directories have such names too.
Result<std::optional<Format>> FormatOfTargetName(const std::string& target);

// Returns the format to write. `asked` is the caller's choice. `source_format`
// (CheckpointInfo::format) is kept if neither the caller nor the name decides.
Result<Format> ChooseTargetFormat(const std::string& target,
                                  std::optional<Format> asked,
                                  const std::string& source_format);

// Returns true if the name implies a single file in a format that can be
// written.
bool NamesOneFile(const std::string& target);

// Refuses a name that implies a single file. Call it before writing a directory
// in `format`.
Status CheckDirectoryName(const std::string& target, Format format);

}  // namespace holdfast
