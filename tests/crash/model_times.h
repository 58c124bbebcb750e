// SetModelTimes: gives all files below `root` the same time, kModelTime. A
// DiskMirror, which records no times, gives its files this time, too. Views use
// times to check that their sources are unchanged.
//
// Thread-safety: one thread. Errors: exceptions of std::filesystem.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "tools/powerloss/disk_mirror.h"

namespace holdfast {

inline void SetModelTimes(const std::string& root) {
  const timespec times[2] = {kModelTime, kModelTime};
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file() || entry.is_symlink()) continue;
    if (::utimensat(AT_FDCWD, entry.path().c_str(), times, 0) != 0) {
      throw std::system_error(errno, std::generic_category(), entry.path());
    }
  }
}

}  // namespace holdfast
