#include "stores/storage/tree_access.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "ground/base/status_macros.h"
#include "stores/storage/directory_ops.h"
#include "stores/storage/errno_status.h"
#include "stores/storage/unique_fd.h"
#include "stores/storage/url_path.h"

namespace holdfast {
namespace {

constexpr uint32_t kAccessBits = 0777;
constexpr uint32_t kOthersBits = 0077;
constexpr uint32_t kReadBits = 0444;

// Returns the permissions of a directory made from a file: users who may read
// the file may also enter the directory.
uint32_t DirectoryBitsOfFile(uint32_t bits) {
  return bits | ((bits & kReadBits) >> 2);
}

// Returns the permissions of a file in a directory: users who may not enter the
// directory cannot access the file.
uint32_t FileBitsInDirectory(uint32_t bits, uint32_t directory_bits) {
  uint32_t entered = 0;
  for (const uint32_t one : {0100u, 0010u, 0001u}) {
    if ((directory_bits & one) != 0) entered |= one * 7;
  }
  return bits & entered;
}

void NarrowBy(const std::string& path, bool is_directory, TreeAccess& access) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0 || S_ISLNK(info.st_mode)) return;
  const uint32_t bits = info.st_mode & kAccessBits;
  if (is_directory) {
    access.directory_bits &= bits;
  } else {
    access.file_bits &= bits;
    access.has_files = true;
  }
}

// Returns the permissions that the umask gives a new directory. It reads them
// from /proc, as calling umask() would change the umask for other threads.
uint32_t NewDirectoryBits() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    constexpr std::string_view kName = "Umask:";
    if (!line.starts_with(kName)) continue;
    const unsigned long umask =
        std::strtoul(line.c_str() + kName.size(), nullptr, 8);
    return kAccessBits & ~static_cast<uint32_t>(umask);
  }
  return 0700;
}

// Sets the access of an open file or directory whose current state is `info`.
// Returns 0 or an errno.
int SetAccess(int fd, const struct stat& info, uint32_t bits, gid_t group) {
  if (group != info.st_gid && ::fchown(fd, -1, group) != 0) {
    // The group cannot be set, so the group that the file has instead gets the
    // permissions of others.
    bits &= ~0070u | ((bits & 0007) << 3);
  }
  const uint32_t mode = (info.st_mode & 07777 & ~kAccessBits) | bits;
  if (mode == (info.st_mode & 07777)) return 0;
  return ::fchmod(fd, mode) == 0 ? 0 : errno;
}

}  // namespace

std::optional<TreeAccess> AccessOfTree(const std::string& path) {
  struct stat info;
  if (IsUrl(path) || ::stat(path.c_str(), &info) != 0) return std::nullopt;
  TreeAccess access;
  access.group_id = info.st_gid;
  const uint32_t bits = info.st_mode & kAccessBits;
  if (!S_ISDIR(info.st_mode)) {
    access.file_bits = bits;
    access.has_files = true;
    access.top_bits = access.directory_bits = DirectoryBitsOfFile(bits);
    return access;
  }
  access.top_bits = access.directory_bits = bits;
  // For a tree that cannot be listed, only the bits of the directory itself
  // count.
  const auto tree = local::ListTree(path);
  if (!tree.ok()) return access;
  for (const std::string& name : tree->directories) {
    NarrowBy(path + "/" + name, true, access);
  }
  for (const std::string& name : tree->files) {
    NarrowBy(path + "/" + name, false, access);
  }
  return access;
}

AccessRule AccessRule::Of(const std::string& replaced,
                          const std::vector<std::string>& sources) {
  AccessRule rule;
  if (!replaced.empty()) rule.kept_ = AccessOfTree(replaced);
  rule.BoundBy(sources);
  return rule;
}

void AccessRule::BoundBy(const std::vector<std::string>& sources) {
  for (const std::string& source : sources) {
    const std::optional<TreeAccess> access = AccessOfTree(source);
    if (!access) continue;
    if (!bound_) bound_.emplace();
    bound_->directory_bits &= access->directory_bits;
    bound_->file_bits &= access->file_bits;
    bound_->top_bits &= access->top_bits;
  }
}

uint32_t AccessRule::BitsOf(uint32_t bits, bool is_directory,
                            bool is_top) const {
  const auto of = [&](const TreeAccess& access) {
    if (is_directory) return is_top ? access.top_bits : access.directory_bits;
    // A single file no longer has the protection of its directory.
    return is_top ? FileBitsInDirectory(access.file_bits, access.top_bits)
                  : access.file_bits;
  };
  // CloseWhileItGrows has closed the directory while it was being written.
  const bool was_closed = is_directory && is_top && (bits & kOthersBits) == 0;
  if (was_closed) bits = NewDirectoryBits();
  if (kept_ && (is_directory || kept_->has_files)) bits = of(*kept_);
  if (bound_) bits &= of(*bound_);
  return bits;
}

Result<bool> AccessRule::IsNarrower(const std::string& path) const {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0) {
    return ErrnoStatus(errno, "look at permissions of", path);
  }
  const uint32_t bits = info.st_mode & kAccessBits;
  const uint32_t file_bits = bits & ~0111u;
  const bool is_other_group =
      kept_ && kept_->group_id && *kept_->group_id != info.st_gid;
  return is_other_group ||
         (bits & ~BitsOf(bits, true, true) & kOthersBits) != 0 ||
         (file_bits & ~BitsOf(file_bits, false, false) & kOthersBits) != 0;
}

Status AccessRule::CloseWhileItGrows(const std::string& path) const {
  if (is_plain()) return Status();
  HF_ASSIGN_OR_RETURN(const bool is_narrower, IsNarrower(path));
  if (!is_narrower) return Status();
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0) {
    return ErrnoStatus(errno, "look at permissions of", path);
  }
  // A new directory inside a directory with this bit inherits its group.
  return local::SetPermissions(path, (info.st_mode & S_ISGID) | 0700);
}

Status AccessRule::ApplyTo(const std::string& path, bool is_top,
                           bool sync) const {
  const UniqueFd fd(::open(
      path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info;
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) {
    return ErrnoStatus(errno, "set permissions of", path);
  }
  const bool is_directory = S_ISDIR(info.st_mode);
  if (!is_directory && info.st_nlink > 1) return Status();
  const uint32_t bits =
      BitsOf(info.st_mode & kAccessBits, is_directory, is_top);
  const gid_t group = kept_ && kept_->group_id ? *kept_->group_id : info.st_gid;
  if (group == info.st_gid && bits == (info.st_mode & kAccessBits)) {
    return Status();
  }
  if (const int error = SetAccess(fd.get(), info, bits, group)) {
    return ErrnoStatus(error, "set permissions of", path);
  }
  if (sync && !is_top && ::fsync(fd.get()) != 0 && !is_directory) {
    return ErrnoStatus(errno, "sync", path);
  }
  return Status();
}

Status AccessRule::Apply(const std::string& path, bool sync) const {
  if (is_plain()) return Status();
  HF_ASSIGN_OR_RETURN(const auto kind, local::GetPathKind(path));
  if (kind == local::PathKind::kDirectory) {
    HF_ASSIGN_OR_RETURN(const auto tree, local::ListTree(path));
    for (const std::string& name : tree.files) {
      HF_RETURN_IF_ERROR(ApplyTo(path + "/" + name, false, sync));
    }
    // The deepest directories come first, because it may be impossible to enter
    // a directory after its change.
    for (const std::string& name : tree.directories) {
      HF_RETURN_IF_ERROR(ApplyTo(path + "/" + name, false, sync));
    }
  }
  return ApplyTo(path, true, sync);
}

uint32_t BitsAt(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & kAccessBits
                                          : kAccessBits;
}

int KeepAccessOf(const struct stat& replaced, int fd) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return errno;
  return SetAccess(fd, info, replaced.st_mode & kAccessBits, replaced.st_gid);
}

}  // namespace holdfast
