// Creates a directory and its parents, durably.
//
// Thread-safety: any thread. Errors: those of the file system.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "holdfast/status.h"

namespace holdfast {

// Created directories get the permissions `mode`, regardless of the umask;
// absent means 0777 less the umask.
Status MakeDirectories(const std::string& path, std::optional<uint32_t> mode);

}  // namespace holdfast
