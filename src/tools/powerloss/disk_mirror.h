// MemoryDirectory: a scratch directory that costs no disk, where the system has
// such a place; TMPDIR elsewhere.
// DiskMirror: states of the disk model as a real directory, so that the engine
// itself can look at them. Only what differs from the last state is rewritten.
//
// Thread-safety: one thread. Ownership: they own their directory.
// Errors: the system's; a directory that could not be made has no path, and
// Show fails.
#pragma once

#include <ctime>
#include <string>

#include "holdfast/status.h"
#include "tools/powerloss/disk_model.h"

namespace holdfast {

class MemoryDirectory {
 public:
  MemoryDirectory();
  ~MemoryDirectory();
  MemoryDirectory(const MemoryDirectory&) = delete;
  MemoryDirectory& operator=(const MemoryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The time of every file that a DiskMirror shows: the model keeps no times.
inline constexpr timespec kModelTime = {1700000000, 0};

class DiskMirror {
 public:
  const std::string& path() const { return directory_.path(); }
  Status Show(const Files& files);
  // After somebody else has changed it.
  const Files& Reload();

 private:
  const MemoryDirectory directory_;
  Files shown_;
};

// A file's bytes, or a link's content in `Files`; what is unreadable is empty.
std::string ReadWhole(const std::string& path);
// All files and directories below `path`, as they really are.
Files ReadFiles(const std::string& path);

}  // namespace holdfast
