// Makes a directory with its parents, durably.
//
// Thread-safety: any thread. Errors: those of the file system.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "holdfast/status.h"

namespace holdfast {

// Directories that it makes get the permissions `mode`, whatever the umask
// says; absent: 0777 less the umask.
Status MakeDirectories(const std::string& path, std::optional<uint32_t> mode);

}  // namespace holdfast
