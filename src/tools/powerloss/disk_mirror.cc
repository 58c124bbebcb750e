#include "tools/powerloss/disk_mirror.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "stores/storage/errno_status.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

bool IsLink(const FileBytes& bytes) {
  return bytes && bytes->starts_with(kLinkMark);
}

Status WriteShown(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0) return ErrnoStatus(errno, "create", path);
  const timespec times[2] = {kModelTime, kModelTime};
  const bool is_written = ::write(fd, text.data(), text.size()) ==
                              static_cast<ssize_t>(text.size()) &&
                          ::futimens(fd, times) == 0;
  const int error = errno;
  ::close(fd);
  return is_written ? Status() : ErrnoStatus(error, "write", path);
}

// Returns true if an entry can stay or be rewritten in place. A changed link
// must be made anew.
bool IsSameKind(const FileBytes& a, const FileBytes& b) {
  return (a == nullptr) == (b == nullptr) &&
         (IsLink(a) || IsLink(b) ? a && b && *a == *b : true);
}

bool IsSame(const FileBytes& a, const FileBytes& b) {
  return a == b || (a && b && *a == *b);
}

Status ShowOne(const std::string& path, const FileBytes& bytes) {
  std::error_code error;
  if (IsLink(bytes)) {
    fs::create_symlink(bytes->substr(kLinkMark.size()), path, error);
  } else if (bytes) {
    return WriteShown(path, *bytes);
  } else {
    fs::create_directory(path, error);
  }
  return error ? ErrnoStatus(error.value(), "create", path) : Status();
}

}  // namespace

MemoryDirectory::MemoryDirectory() {
  const char* temporary = std::getenv("TMPDIR");
  std::string parent = temporary != nullptr ? temporary : "/tmp";
  if (::access("/dev/shm", W_OK) == 0) parent = "/dev/shm";
  path_ = parent + "/holdfast.XXXXXX";
  if (::mkdtemp(path_.data()) == nullptr) path_.clear();
}

MemoryDirectory::~MemoryDirectory() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

const Files& DiskMirror::Reload() {
  shown_ = ReadFiles(path());
  return shown_;
}

Status DiskMirror::Show(const Files& files) {
  if (path().empty()) {
    return UnavailableError("no scratch directory can be made in TMPDIR");
  }
  // Children are listed after their directory, so they are removed first.
  for (auto it = shown_.rbegin(); it != shown_.rend(); ++it) {
    const auto wanted = files.find(it->first);
    const bool stays =
        wanted != files.end() && IsSameKind(wanted->second, it->second);
    std::error_code error;
    if (!stays) fs::remove(path() + "/" + it->first, error);
    if (error) return ErrnoStatus(error.value(), "remove", it->first);
  }
  for (const auto& [name, bytes] : files) {
    const auto shown = shown_.find(name);
    const bool is_there =
        shown != shown_.end() && IsSameKind(shown->second, bytes);
    if (is_there && IsSame(shown->second, bytes)) continue;
    const Status status = ShowOne(path() + "/" + name, bytes);
    if (!status.ok()) return status;
  }
  shown_ = files;
  return Status();
}

std::string ReadWhole(const std::string& path) {
  std::error_code error;
  const fs::path target = fs::read_symlink(path, error);
  if (!error) return std::string(kLinkMark) + target.string();
  // Do not open pipes: that would wait for the other end.
  if (!fs::is_regular_file(path, error)) return "";
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Files ReadFiles(const std::string& path) {
  Files files;
  std::error_code ignored;
  for (fs::recursive_directory_iterator it(path, ignored), end; it != end;
       it.increment(ignored)) {
    const bool is_directory =
        it->symlink_status(ignored).type() == fs::file_type::directory;
    files[it->path().string().substr(path.size() + 1)] =
        is_directory
            ? nullptr
            : std::make_shared<const std::string>(ReadWhole(it->path()));
  }
  return files;
}

}  // namespace holdfast
