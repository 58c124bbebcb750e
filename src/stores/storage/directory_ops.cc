#include "stores/storage/directory_ops.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "ground/base/status_macros.h"
#include "stores/storage/directory_entries.h"
#include "stores/storage/errno_status.h"
#include "stores/storage/file_calls.h"
#include "stores/storage/nobodys_files.h"
#include "stores/storage/path_parts.h"
#include "stores/storage/rename_call.h"
#include "stores/storage/unique_fd.h"

namespace holdfast::local {
namespace {

constexpr int kOpenDirectoryFlags =
    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// Lists the names in the directory, unsorted, without "." and "..". Returns 0
// or an errno.
int ReadNames(int directory, std::vector<std::string>& names) {
  // ForEachEntry closes the descriptor that it reads, so it gets a separate
  // one.
  UniqueFd own(::openat(directory, ".", kOpenDirectoryFlags));
  if (!own.valid()) return errno;
  return ForEachEntry(std::move(own), [&](int, const dirent& item) {
    names.emplace_back(item.d_name);
    return 0;
  });
}

bool IsNobodysEntry(int directory, const dirent& item) {
  const bool may_be_file = IsNobodysFile(item.d_name);
  if (!may_be_file && !IsNobodysDirectory(item.d_name)) return false;
  bool is_directory = item.d_type == DT_DIR;
  struct stat info;
  if (item.d_type == DT_UNKNOWN &&
      ::fstatat(directory, item.d_name, &info, AT_SYMLINK_NOFOLLOW) == 0) {
    is_directory = S_ISDIR(info.st_mode);
  }
  return is_directory != may_be_file;
}

// This file tells readers that the directory of a save without a marker is not
// a checkpoint. It is removed last, so that a half-removed directory is never
// mistaken for a checkpoint.
constexpr std::string_view kRemovedLast = "_CHECKPOINT_METADATA";

class TreeRemover {
 public:
  explicit TreeRemover(dev_t device) : device_(device) {}

  // Empties the open directory; `path` is for messages.
  Status Empty(int directory, const std::string& path) {
    std::vector<std::string> names;
    const int error = ReadNames(directory, names);
    if (error != 0) return ErrnoStatus(error, "remove", path);
    std::stable_partition(
        names.begin(), names.end(),
        [](const std::string& name) { return name != kRemovedLast; });
    for (const std::string& name : names) {
      std::string entry_path = path;
      entry_path.append("/").append(name);
      HF_RETURN_IF_ERROR(RemoveEntry(directory, name, entry_path));
    }
    return {};
  }

 private:
  Status RemoveEntry(int parent, const std::string& name,
                     const std::string& path) {
    // Tries unlink first: most entries are files, and this saves a stat for
    // each.
    if (::unlinkat(parent, name.c_str(), 0) == 0) return {};
    // For a directory, Linux returns EISDIR; POSIX says EPERM.
    if (errno != EISDIR && errno != EPERM) return Ignored(errno, path);
    const int unlink_error = errno;
    UniqueFd fd(::openat(parent, name.c_str(), kOpenDirectoryFlags));
    if (!fd.valid()) {
      const bool was_file = errno == ENOTDIR || errno == ELOOP;
      return Ignored(was_file ? unlink_error : errno, path);
    }
    // Without this check, a file system mounted below would be emptied as part
    // of the tree.
    HF_RETURN_IF_ERROR(CheckSameDevice(fd.get(), path));
    HF_RETURN_IF_ERROR(Empty(fd.get(), path));
    if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0) return {};
    return Ignored(errno, path);
  }

  // Turns an error into a Status. An entry that no longer exists counts as
  // removed.
  static Status Ignored(int error, const std::string& path) {
    return error == ENOENT ? Status() : ErrnoStatus(error, "remove", path);
  }

  Status CheckSameDevice(int fd, const std::string& path) const {
    struct stat info;
    if (::fstat(fd, &info) != 0) return ErrnoStatus(errno, "remove", path);
    if (info.st_dev == device_) return {};
    return FailedPreconditionError("remove " + path +
                                   ": another file system is mounted here");
  }

  const dev_t device_;
};

Status CheckRemovable(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string last =
      slash == std::string::npos ? path : path.substr(slash + 1);
  if (!last.empty() && last != "." && last != "..") return {};
  return InvalidArgumentError("remove \"" + path +
                              "\": does not end in the name of a directory");
}

// Syncs both parents, so that the new name and the removal of the old one are
// durable.
Status SyncParents(const std::string& a, const std::string& b) {
  HF_RETURN_IF_ERROR(SyncDirectory(ParentPath(a)));
  return ParentPath(a) == ParentPath(b) ? Status()
                                        : SyncDirectory(ParentPath(b));
}

bool IsOneFileSystem(const std::string& a, const std::string& b) {
  struct stat first, second;
  return ::stat(ParentPath(a).c_str(), &first) == 0 &&
         ::stat(ParentPath(b).c_str(), &second) == 0 &&
         first.st_dev == second.st_dev;
}

// Some file systems cannot rename directories. In others, such as overlays,
// directories may come from different file systems.
Status PublishError(int error, const std::string& from, const std::string& to) {
  const Status status = ErrnoStatus(error, "publish " + from + " as", to);
  const bool has_no_renames = error == ENOSYS || error == EOPNOTSUPP ||
                              (error == EXDEV && IsOneFileSystem(from, to));
  if (!has_no_renames) return status;
  return UnimplementedError(std::string(status.message()) +
                            " (this file system cannot rename directories)");
}

// Exchanges the names of two entries. Returns 0 or an errno.
int ExchangeNames(const std::string& a, const std::string& b) {
  return RenameWithFlags(AT_FDCWD, a.c_str(), b.c_str(), kRenameExchange) == 0
             ? 0
             : errno;
}

}  // namespace

Result<PathKind> GetPathKind(const std::string& path) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return PathKind::kMissing;
    return ErrnoStatus(errno, "stat", path);
  }
  if (S_ISREG(info.st_mode)) return PathKind::kFile;
  if (S_ISDIR(info.st_mode)) return PathKind::kDirectory;
  return S_ISLNK(info.st_mode) ? PathKind::kSymlink : PathKind::kOther;
}

namespace {

// Sets `info` to the state of what `path` leads to. Returns false if it leads
// nowhere.
Result<bool> LookAt(const std::string& path, struct stat& info) {
  if (::stat(path.c_str(), &info) == 0) return true;
  const bool is_answer = errno == ENOENT || errno == ENOTDIR ||
                         errno == ELOOP || errno == EACCES ||
                         errno == ENAMETOOLONG;
  if (is_answer) return false;
  return ErrnoStatus(errno, "stat", path);
}

}  // namespace

Result<bool> LeadsToDirectory(const std::string& path) {
  struct stat info;
  HF_ASSIGN_OR_RETURN(const bool is_there, LookAt(path, info));
  return is_there && S_ISDIR(info.st_mode);
}

Result<bool> LeadsToAnything(const std::string& path) {
  struct stat info;
  return LookAt(path, info);
}

std::string DirectoryId(const std::string& path) {
  struct statx info;
  constexpr unsigned kWanted = STATX_BASIC_STATS | STATX_BTIME;
  if (::statx(AT_FDCWD, path.c_str(), 0, kWanted, &info) != 0) return "";
  const auto time_text = [](const struct statx_timestamp& time) {
    return ":" + std::to_string(time.tv_sec) + "." +
           std::to_string(time.tv_nsec);
  };
  std::string id = std::to_string(info.stx_dev_major) + ":" +
                   std::to_string(info.stx_dev_minor) + ":" +
                   std::to_string(info.stx_ino);
  // The birth time matters because the inode number of a removed directory is
  // soon reused.
  if ((info.stx_mask & STATX_BTIME) != 0) id += time_text(info.stx_btime);
  if (S_ISREG(info.stx_mode)) {
    id += ":" + std::to_string(info.stx_size) + time_text(info.stx_mtime);
  }
  return id;
}

Status CreateDirectoryNew(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) == 0) return {};
  return ErrnoStatus(errno, "create directory", path);
}

Status SetPermissions(const std::string& path, uint32_t mode) {
  UniqueFd fd(::open(path.c_str(), kOpenDirectoryFlags));
  if (fd.valid() && ::fchmod(fd.get(), mode & 07777) == 0) return {};
  return ErrnoStatus(errno, "set permissions of", path);
}

Status SyncDirectory(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const int error =
      fd.valid() ? FileCalls().SyncDirectory(fd.get(), path) : errno;
  return error == 0 ? Status() : ErrnoStatus(error, "sync directory", path);
}

Status SyncFile(const std::string& path) {
  // With O_NONBLOCK, opening a FIFO does not wait for a writer.
  UniqueFd fd(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus(errno, "sync", path);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "sync", path);
  if (!S_ISREG(info.st_mode)) {
    return FailedPreconditionError("sync " + path + ": not a regular file");
  }
  return ::fsync(fd.get()) == 0 ? Status() : ErrnoStatus(errno, "sync", path);
}

Status PublishDirectory(const std::string& source, const std::string& target) {
  const std::string from = WithoutTrailingSlashes(source);
  const std::string to = WithoutTrailingSlashes(target);
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(from));
  if (kind == PathKind::kMissing) return ErrnoStatus(ENOENT, "publish", from);
  if (kind != PathKind::kDirectory) {
    return FailedPreconditionError("publish " + from + ": not a directory");
  }
  const int error = RenameNew(AT_FDCWD, from.c_str(), to.c_str());
  if (error != 0) return PublishError(error, from, to);
  return SyncParents(to, from);
}

Status ExchangeDirectories(const std::string& a, const std::string& b) {
  const std::string first = WithoutTrailingSlashes(a);
  const std::string second = WithoutTrailingSlashes(b);
  const int error = ExchangeNames(first, second);
  if (error == 0) return SyncParents(second, first);
  const Status status =
      ErrnoStatus(error, "exchange " + first + " with", second);
  if (!MayLackRenameFlags(error)) return status;
  return UnimplementedError(std::string(status.message()));
}

Status RemoveTree(const std::string& path) {
  const std::string trimmed = WithoutTrailingSlashes(path);
  HF_RETURN_IF_ERROR(CheckRemovable(trimmed));
  UniqueFd fd(::open(trimmed.c_str(), kOpenDirectoryFlags));
  if (!fd.valid() && (errno == ENOTDIR || errno == ELOOP)) {
    return FailedPreconditionError("remove " + path + ": not a directory");
  }
  if (!fd.valid()) return ErrnoStatus(errno, "remove", path);
  return RemoveOpenTree(fd.get(), trimmed);
}

Status RemoveOpenTree(int fd, const std::string& path) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return ErrnoStatus(errno, "remove", path);
  HF_RETURN_IF_ERROR(TreeRemover(info.st_dev).Empty(fd, path));
  return ::rmdir(path.c_str()) == 0 ? Status()
                                    : ErrnoStatus(errno, "remove", path);
}

Result<std::vector<std::string>> ListDirectory(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "list", path);
  std::vector<std::string> names;
  const int error =
      ForEachEntry(std::move(fd), [&](int directory, const dirent& item) {
        if (!IsNobodysEntry(directory, item)) names.emplace_back(item.d_name);
        return 0;
      });
  if (error != 0) return ErrnoStatus(error, "list", path);
  std::sort(names.begin(), names.end());
  return names;
}

Result<DirectoryTree> ListTree(const std::string& path) {
  DirectoryTree tree;
  // The list grows while it is walked, so parents precede their contents.
  std::vector<std::string> directories = {""};
  for (size_t i = 0; i < directories.size(); ++i) {
    const std::string prefix =
        directories[i].empty() ? "" : directories[i] + "/";
    HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                        ListDirectory(path + "/" + prefix));
    for (const std::string& name : names) {
      HF_ASSIGN_OR_RETURN(const PathKind kind,
                          GetPathKind(path + "/" + prefix + name));
      if (kind == PathKind::kFile) tree.files.push_back(prefix + name);
      if (kind == PathKind::kDirectory) directories.push_back(prefix + name);
    }
  }
  // The reverse order has the deepest directories first, as removing and
  // syncing need. The root, which is last, is left out.
  tree.directories.assign(directories.rbegin(), directories.rend() - 1);
  return tree;
}

}  // namespace holdfast::local
