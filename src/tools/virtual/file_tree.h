// FileTree: a checkpoint's files in one format, below one directory.
//
// Thread-safety: any thread. Units: bytes. Names are relative to the directory,
// without leading or trailing slashes; "" is the directory itself.
// Errors: those of holdfast/tools/virtual_files.h.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/tools/virtual_files.h"

namespace holdfast {

class FileTree {
 public:
  virtual ~FileTree() = default;
  virtual Result<VirtualEntry> Stat(std::string_view name) const = 0;
  virtual Result<std::vector<VirtualEntry>> List(
      std::string_view directory) const = 0;
  // REQUIRES: Stat says that `name` is a file, and the range is inside it.
  virtual Status ReadInto(std::string_view name, uint64_t offset,
                          std::span<char> target) const = 0;
};

// The names of files, and of the directories that contain them.
class NameIndex {
 public:
  // Returns AlreadyExists for a name that exists or that is a directory of
  // other files, and InvalidArgument for a name that would lead out of the tree
  // (StaysInside).
  Status AddFile(const std::string& name, uint64_t byte_count, size_t number);
  void AddDirectory(const std::string& name);

  // Returns an entry with its complete name, or NotFound.
  Result<VirtualEntry> Stat(std::string_view name) const;
  Result<std::vector<VirtualEntry>> List(std::string_view directory) const;
  bool HasDirectory(std::string_view name) const;
  // Returns the number that AddFile was given, or InvalidArgument for a
  // directory.
  Result<size_t> NumberOf(std::string_view name) const;

 private:
  struct File {
    uint64_t byte_count = 0;
    size_t number = 0;
  };
  std::map<std::string, File, std::less<>> files_;
  std::set<std::string, std::less<>> directories_ = {""};
  // For each directory, the last parts of the names in it.
  std::map<std::string, std::set<std::string>, std::less<>> children_;
};

// A tree whose file names are all known.
class NamedFiles : public FileTree {
 public:
  Result<VirtualEntry> Stat(std::string_view name) const override {
    return names_.Stat(name);
  }
  Result<std::vector<VirtualEntry>> List(
      std::string_view directory) const override {
    return names_.List(directory);
  }

 protected:
  NameIndex names_;
};

// Returns false for a name with a part "", "." or "..", or with a NUL. A copy
// of a file under such a name would be written elsewhere, or fail.
bool StaysInside(std::string_view name);
Status NoSuchFile(std::string_view name);

}  // namespace holdfast
