// MemoryDirectory: a scratch directory, in memory if the system has a file
// system for that, else below TMPDIR.
// DiskMirror: writes states of the disk model into a real directory, so that
// the engine itself can read them. It rewrites only the differences from the
// previous state.
//
// Thread-safety: one thread. Ownership: they own their directory.
// Errors: those of the system. If the directory cannot be made, its path is
// empty and Show fails.
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

// The time of every file that a DiskMirror writes, because the model keeps no
// times.
inline constexpr timespec kModelTime = {1700000000, 0};

class DiskMirror {
 public:
  const std::string& path() const { return directory_.path(); }
  Status Show(const Files& files);
  // Reads the directory again and returns its files. Call it after something
  // else has changed the directory.
  const Files& Reload();

 private:
  const MemoryDirectory directory_;
  Files shown_;
};

// Returns a file's bytes, or a link's content as in `Files`; empty if it is
// unreadable.
std::string ReadWhole(const std::string& path);
// Returns all files and directories that exist below `path`.
Files ReadFiles(const std::string& path);

}  // namespace holdfast
