#include "stores/storage/file_calls.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "stores/storage/piece_cursor.h"
#include "stores/storage/rename_call.h"

#ifndef MADV_POPULATE_WRITE  // Linux 5.14
#define MADV_POPULATE_WRITE 23
#endif

namespace holdfast {
namespace {

constexpr mode_t kFileMode = 0666;
constexpr mode_t kDirectoryMode = 0777;
constexpr size_t kVectorsMax = std::min(IOV_MAX, 1024);
// One system call moves at most 0x7ffff000 bytes. This is less, and a multiple
// of the page size.
constexpr size_t kCallBytesMax = size_t{1} << 30;
constexpr size_t kMappedAheadBytesMin = size_t{256} << 10;
// RESOLVE_BENEATH may return EAGAIN while another process renames directories.
constexpr int kResolveAttemptsMax = 64;

// Repeats `call` while it fails with EINTR. `call` returns -1 and sets errno on
// failure. Returns 0 or an errno.
template <typename Call>
int Retrying(Call call) {
  while (call() < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// Maps memory that has not been touched, in one call instead of one page fault
// per page. Without this, reading 256 MiB from the page cache into new memory
// spent half of the processor time on page faults; this call takes 15 to 20 %
// of the total. Calling it for memory that is already mapped would cost a
// quarter more for nothing, so memory whose first page is mapped is skipped.
void MapAhead(std::span<char> target) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(target.data());
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t last = (begin + target.size()) / page * page;
  unsigned char is_there = 0;
  auto* const start = target.data() + (first - begin);
  if (first >= last || ::mincore(start, page, &is_there) != 0) return;
  // Pages that madvise cannot map are mapped by page faults.
  if ((is_there & 1) == 0) ::madvise(start, last - first, MADV_POPULATE_WRITE);
}

// Opens a path with openat2. ENOSYS if the kernel, or a seccomp filter, does
// not support the call.
int OpenWithKernelCheck(int root, const char* path, int flags,
                        FileCalls::Links links, UniqueFd& fd) {
  open_how how{};
  how.flags = static_cast<uint64_t>(flags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  if (links == FileCalls::Links::kNone) how.resolve |= RESOLVE_NO_SYMLINKS;
  for (int attempt = 0; attempt < kResolveAttemptsMax; ++attempt) {
    const long opened = ::syscall(SYS_openat2, root, path, &how, sizeof how);
    if (opened >= 0) {
      fd = UniqueFd(static_cast<int>(opened));
      return 0;
    }
    if (errno != EAGAIN && errno != EINTR) return errno;
  }
  return EAGAIN;
}

int OpenOneComponent(int parent, const char* name, int flags, UniqueFd& fd) {
  return Retrying([&] {
    const int opened = ::openat(parent, name, flags, kFileMode);
    if (opened >= 0) fd = UniqueFd(opened);
    return opened;
  });
}

// Returns ELOOP for a symbolic link, which Linux reports as ENOTDIR with O_PATH
// and O_DIRECTORY.
int ExplainNotDirectory(int parent, const char* name, int error) {
  struct stat info;
  if (error != ENOTDIR) return error;
  if (::fstatat(parent, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return error;
  return S_ISLNK(info.st_mode) ? ELOOP : error;
}

// Returns ELOOP for a symbolic link, because O_PATH | O_NOFOLLOW opens the link
// itself instead of failing.
int RefuseLink(const UniqueFd& fd) {
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return errno;
  return S_ISLNK(info.st_mode) ? ELOOP : 0;
}

int OpenByComponents(int root, std::string_view path, int flags, UniqueFd& fd) {
  UniqueFd directory;
  int parent = root;
  while (true) {
    const size_t slash = path.find('/');
    const std::string name(path.substr(0, slash));
    const bool last = slash == std::string_view::npos;
    // Without openat2 each part is opened separately, never through a link, so
    // only ".." could lead out of the root.
    if (name == "..") return EXDEV;
    const int step_flags = last ? flags | O_NOFOLLOW
                                : O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    UniqueFd next;
    const int error = OpenOneComponent(parent, name.c_str(), step_flags, next);
    if (error != 0) return ExplainNotDirectory(parent, name.c_str(), error);
    if (last) {
      fd = std::move(next);
      return (flags & O_PATH) ? RefuseLink(fd) : 0;
    }
    directory = std::move(next);
    parent = directory.get();
    path.remove_prefix(slash + 1);
  }
}

}  // namespace

int FileCalls::OpenBeneath(int root, const std::string& path, int flags,
                           Links links, UniqueFd& fd) const {
  if (const int error = Ask("open", path)) return error;
  const std::string name = path.empty() ? "." : path;
  flags |= O_CLOEXEC;
  if (use_openat2_) {
    const int error = OpenWithKernelCheck(root, name.c_str(), flags, links, fd);
    // Old kernels return ENOSYS; some seccomp filters return EPERM.
    if (error != ENOSYS && error != EPERM) return error;
  }
  return OpenByComponents(root, name, flags, fd);
}

int FileCalls::CreateFile(int directory, const std::string& name,
                          std::string_view path, UniqueFd& fd) const {
  if (const int error = Ask("create", path)) return error;
  return OpenOneComponent(directory, name.c_str(),
                          O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, fd);
}

int FileCalls::MakeDirectory(int parent, const std::string& name,
                             std::string_view path) const {
  if (const int error = Ask("mkdir", path)) return error;
  return Retrying(
      [&] { return ::mkdirat(parent, name.c_str(), kDirectoryMode); });
}

int FileCalls::Stat(int fd, std::string_view path, struct stat& info) const {
  if (const int error = Ask("fstat", path)) return error;
  return Retrying([&] { return ::fstat(fd, &info); });
}

int FileCalls::ReadFull(int fd, uint64_t offset, std::span<char> target,
                        std::string_view path, size_t& read_bytes) const {
  read_bytes = 0;
  if (target.size() >= kMappedAheadBytesMin) MapAhead(target);
  while (read_bytes < target.size()) {
    if (const int error = Ask("pread", path)) return error;
    const size_t wanted = std::min(target.size() - read_bytes, kCallBytesMax);
    ssize_t got = 0;
    const int error = Retrying([&] {
      return got = ::pread(fd, target.data() + read_bytes, wanted,
                           static_cast<off_t>(offset + read_bytes));
    });
    if (error != 0) return error;
    // The file has ended. The caller decides whether that is an error.
    if (got == 0) return 0;
    read_bytes += static_cast<size_t>(got);
  }
  return 0;
}

int FileCalls::WriteFull(int fd, uint64_t offset,
                         std::span<const std::string_view> pieces,
                         std::string_view path) const {
  std::array<iovec, kVectorsMax> vectors;
  PieceCursor cursor(pieces);
  while (const size_t used = cursor.Fill(vectors, kCallBytesMax)) {
    if (const int error = Ask("pwrite", path)) return error;
    ssize_t written = 0;
    const int error = Retrying([&] {
      return written = ::pwritev(fd, vectors.data(), static_cast<int>(used),
                                 static_cast<off_t>(offset));
    });
    if (error != 0) return error;
    if (written == 0) return EIO;  // no progress, so do not loop
    cursor.Advance(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
  return 0;
}

void FileCalls::StartWriteback(int fd, uint64_t offset, uint64_t byte_count,
                               std::string_view path) const {
  if (Ask("writeback", path) != 0) return;
  // This is only a hint. The sync that follows reports a failed write.
  (void)::sync_file_range(fd, static_cast<off_t>(offset),
                          static_cast<off_t>(byte_count),
                          SYNC_FILE_RANGE_WRITE);
}

int FileCalls::SyncData(int fd, std::string_view path) const {
  if (const int error = Ask("fdatasync", path)) return error;
  return Retrying([&] { return ::fdatasync(fd); });
}

int FileCalls::SyncDirectory(int fd, std::string_view path) const {
  if (const int error = Ask("fsync_directory", path)) return error;
  const int error = Retrying([&] { return ::fsync(fd); });
  // Some file systems cannot sync a directory, and make names durable by
  // themselves.
  return error == EINVAL || error == EOPNOTSUPP || error == ENOSYS ? 0 : error;
}

int FileCalls::Rename(int directory, const std::string& source,
                      const std::string& target, bool must_create,
                      std::string_view path) const {
  if (const int error = Ask("rename", path)) return error;
  const unsigned flags = must_create ? kRenameNoReplace : 0;
  const int error = Retrying([&] {
    return RenameWithFlags(directory, source.c_str(), target.c_str(), flags);
  });
  // A link replaces nothing, so it can only stand in for a rename with
  // must_create.
  if (!must_create || !MayLackRenameFlags(error)) return error;
  // The file system has no RENAME_NOREPLACE, but a hard link is equally atomic.
  const int link_error = Retrying([&] {
    return ::linkat(directory, source.c_str(), directory, target.c_str(), 0);
  });
  if (link_error == EPERM || link_error == EMLINK) {
    return error == EPERM ? EPERM : EOPNOTSUPP;
  }
  if (link_error != 0) return link_error;
  return Unlink(directory, source, path);
}

int FileCalls::Unlink(int directory, const std::string& name,
                      std::string_view path) const {
  if (const int error = Ask("unlink", path)) return error;
  return Retrying([&] { return ::unlinkat(directory, name.c_str(), 0); });
}

}  // namespace holdfast
