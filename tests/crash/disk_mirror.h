// MemoryDirectory: a scratch directory that costs no disk, where the system has
// such a place.
// DiskMirror: states of the disk model as a real directory, so that the engine
// itself can look at them. Only what differs from the last state is rewritten.
//
// Thread-safety: one thread. Ownership: they own their directory.
// Errors: exceptions of std::filesystem.
#pragma once

#include <string>

#include "crash/disk_model.h"

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

// Gives all files below `root` the time that a DiskMirror's have, which keeps
// none: views tell by it whether their sources are still as they were.
void SetModelTimes(const std::string& root);

class DiskMirror {
 public:
  const std::string& path() const { return directory_.path(); }
  void Show(const Files& files);
  // After somebody else has changed it.
  const Files& Reload();

 private:
  const MemoryDirectory directory_;
  Files shown_;
};

}  // namespace holdfast
