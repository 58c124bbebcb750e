// Creates a directory and its parents, durably.
//
// Thread-safety: any thread. Errors: those of the file system.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "holdfast/status.h"

namespace holdfast {

// Creates the missing directories of `path` with the permissions `mode`,
// regardless of the umask. Without a mode they get 0777 less the umask.
Status MakeDirectories(const std::string& path, std::optional<uint32_t> mode);

}  // namespace holdfast
