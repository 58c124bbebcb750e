#include "crash/disk_mirror.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "crash/recorder.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

void Require(bool is_done, const std::string& path) {
  if (is_done) return;
  throw std::system_error(errno, std::generic_category(), path);
}

constexpr timespec kModelTimes[2] = {{1700000000, 0}, {1700000000, 0}};

bool IsLink(const FileBytes& bytes) {
  return bytes && bytes->starts_with(kLinkMark);
}

void WriteWhole(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  Require(fd >= 0, path);
  const ssize_t written = ::write(fd, text.data(), text.size());
  Require(::futimens(fd, kModelTimes) == 0, path);
  ::close(fd);
  Require(written == static_cast<ssize_t>(text.size()), path);
}

// What is of one kind can be rewritten; links are made anew.
bool IsSameKind(const FileBytes& a, const FileBytes& b) {
  return (a == nullptr) == (b == nullptr) &&
         (IsLink(a) || IsLink(b) ? a && b && *a == *b : true);
}

bool IsSame(const FileBytes& a, const FileBytes& b) {
  return a == b || (a && b && *a == *b);
}

}  // namespace

MemoryDirectory::MemoryDirectory() {
  const bool has_memory = ::access("/dev/shm", W_OK) == 0;
  path_ = (has_memory ? "/dev/shm" : testing::TempDir()) + "/holdfast.XXXXXX";
  Require(::mkdtemp(path_.data()) != nullptr, path_);
}

MemoryDirectory::~MemoryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void SetModelTimes(const std::string& root) {
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file() || entry.is_symlink()) continue;
    Require(::utimensat(AT_FDCWD, entry.path().c_str(), kModelTimes, 0) == 0,
            entry.path());
  }
}

const Files& DiskMirror::Reload() {
  shown_ = ReadFiles(path());
  return shown_;
}

void DiskMirror::Show(const Files& files) {
  // Children come after their directory, so they go first.
  for (auto it = shown_.rbegin(); it != shown_.rend(); ++it) {
    const auto wanted = files.find(it->first);
    const bool stays =
        wanted != files.end() && IsSameKind(wanted->second, it->second);
    if (!stays) fs::remove(path() + "/" + it->first);
  }
  for (const auto& [name, bytes] : files) {
    const auto shown = shown_.find(name);
    const bool is_there =
        shown != shown_.end() && IsSameKind(shown->second, bytes);
    if (is_there && IsSame(shown->second, bytes)) continue;
    const std::string file = path() + "/" + name;
    if (IsLink(bytes)) {
      fs::create_symlink(bytes->substr(kLinkMark.size()), file);
    } else if (bytes) {
      WriteWhole(file, *bytes);
    } else {
      fs::create_directory(file);
    }
  }
  shown_ = files;
}

}  // namespace holdfast
