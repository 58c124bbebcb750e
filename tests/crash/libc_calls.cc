#include "crash/libc_calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>

#include "crash/change_filter.h"

namespace holdfast {
namespace {

std::atomic<CallHook*> current_hook{nullptr};
thread_local bool is_inside_hook = false;
std::atomic<Renames> current_renames{Renames::kAll};

// Returns libc's own function, for calls that are not plain system calls.
template <typename Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

using Syscall = long(long, long, long, long, long, long, long);

// Returns libc's syscall(). A function-local static would not work: its guard
// waits by calling syscall(), which is defined here too, so that threads that
// initialize it at the same time would recurse until the stack is full.
Syscall* RealSyscall() {
  static constinit std::atomic<Syscall*> known{nullptr};
  Syscall* real = known.load();
  if (real == nullptr) known = real = Real<Syscall>("syscall");
  return real;
}

// Makes a system call with the mark that ForbidOtherChanges allows in the sixth
// argument, which none of these calls uses.
template <typename... Arguments>
long Marked(long number, Arguments... arguments) {
  static_assert(sizeof...(Arguments) <= 5);
  long padded[5] = {(long)arguments...};  // NOLINT: pointers and integers
  return RealSyscall()(number, padded[0], padded[1], padded[2], padded[3],
                       padded[4], kChangeMark);
}

template <typename Make>
long Pass(const FileCall& call, Make make) {
  CallHook* const hook = current_hook.load();
  if (hook == nullptr || is_inside_hook) return make();
  is_inside_hook = true;
  const long result = hook->Run(call, make);
  is_inside_hook = false;
  return result;
}

FileCallKind OpenKind(int flags) {
  return flags & (O_CREAT | O_TRUNC) ? FileCallKind::kCreate
                                     : FileCallKind::kOpen;
}

int PassOpen(int directory, const char* path, int flags, mode_t mode) {
  const FileCall call{.kind = OpenKind(flags),
                      .directory = directory,
                      .path = path,
                      .flags = flags};
  return static_cast<int>(Pass(
      call, [&] { return Marked(SYS_openat, directory, path, flags, mode); }));
}

long PassWrite(int fd, std::span<const iovec> pieces, off_t offset) {
  const FileCall call{.kind = FileCallKind::kWrite,
                      .fd = fd,
                      .pieces = pieces,
                      .offset = offset};
  return Pass(call, [&] {
    return offset < 0 ? Marked(SYS_writev, fd, pieces.data(), pieces.size())
                      : Marked(SYS_pwritev, fd, pieces.data(), pieces.size(),
                               offset, 0L);
  });
}

// Returns the errno with which the simulated file system refuses a rename, or 0
// if it supports the rename.
int RefusalOf(int directory, const char* from, unsigned flags) {
  static auto* const real =
      Real<int(int, const char*, struct stat*, int)>("fstatat");
  const Renames renames = current_renames;
  if (renames == Renames::kAll) return 0;
  struct stat info;
  if (renames == Renames::kOfFiles &&
      real(directory, from, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
      S_ISDIR(info.st_mode)) {
    return ENOSYS;
  }
  return flags == 0 ? 0 : EINVAL;
}

int PassRename(int from_directory, const char* from, int to_directory,
               const char* to, unsigned flags) {
  if (const int error = RefusalOf(from_directory, from, flags)) {
    errno = error;
    return -1;
  }
  const bool is_exchange = (flags & RENAME_EXCHANGE) != 0;
  const FileCall call{
      .kind = is_exchange ? FileCallKind::kExchange : FileCallKind::kRename,
      .directory = from_directory,
      .path = from,
      .to_directory = to_directory,
      .to = to};
  return static_cast<int>(Pass(call, [&] {
    return Marked(SYS_renameat2, from_directory, from, to_directory, to, flags);
  }));
}

int PassUnlink(int directory, const char* path, int flags) {
  const FileCall call{
      .kind = FileCallKind::kUnlink, .directory = directory, .path = path};
  return static_cast<int>(
      Pass(call, [&] { return Marked(SYS_unlinkat, directory, path, flags); }));
}

int PassMakeDirectory(int directory, const char* path, mode_t mode) {
  const FileCall call{.kind = FileCallKind::kMakeDirectory,
                      .directory = directory,
                      .path = path};
  return static_cast<int>(
      Pass(call, [&] { return Marked(SYS_mkdirat, directory, path, mode); }));
}

int PassSync(int fd, long number) {
  const FileCall call{.kind = FileCallKind::kSync, .fd = fd};
  return static_cast<int>(Pass(call, [&] { return Marked(number, fd); }));
}

int PassStat(int directory, const char* path, struct stat* info, int flags) {
  const FileCall call{
      .kind = FileCallKind::kStat, .directory = directory, .path = path};
  static auto* const real =
      Real<int(int, const char*, struct stat*, int)>("fstatat");
  return static_cast<int>(
      Pass(call, [&]() -> long { return real(directory, path, info, flags); }));
}

}  // namespace

std::string_view FileCallKindName(FileCallKind kind) {
  constexpr std::string_view kNames[] = {
      "create",   "mkdir", "write",   "resize", "rename",
      "exchange", "link",  "symlink", "unlink", "chmod",
      "sync",     "open",  "read",    "stat",   "readdir"};
  return kNames[static_cast<size_t>(kind)];
}

ScopedRenames::ScopedRenames(Renames renames) { current_renames = renames; }
ScopedRenames::~ScopedRenames() { current_renames = Renames::kAll; }

ScopedCallHook::ScopedCallHook(CallHook* hook) { current_hook = hook; }

ScopedCallHook::~ScopedCallHook() { current_hook = nullptr; }

size_t TotalBytes(std::span<const iovec> pieces) {
  size_t byte_count = 0;
  for (const iovec& piece : pieces) byte_count += piece.iov_len;
  return byte_count;
}

long WriteFirstBytes(const FileCall& call, size_t byte_count) {
  long done = 0;
  for (const iovec& piece : call.pieces) {
    const size_t size = std::min(piece.iov_len, byte_count - done);
    if (size == 0) continue;
    const iovec part{piece.iov_base, size};
    const long written = call.offset < 0 ? Marked(SYS_writev, call.fd, &part, 1)
                                         : Marked(SYS_pwritev, call.fd, &part,
                                                  1, call.offset + done, 0L);
    if (written < 0) return written;
    done += written;
  }
  return done;
}

bool ForbidOtherChanges() { return InstallChangeFilter(kEscapeExit); }

}  // namespace holdfast

using holdfast::FileCall;
using holdfast::FileCallKind;

extern "C" {

long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  const auto make = [&] {
    return holdfast::RealSyscall()(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  };
  if (number != SYS_openat2) return make();
  const int flags = static_cast<int>(reinterpret_cast<open_how*>(a[2])->flags);
  const FileCall call{.kind = holdfast::OpenKind(flags),
                      .directory = static_cast<int>(a[0]),
                      .path = reinterpret_cast<const char*>(a[1]),
                      .flags = flags};
  return holdfast::Pass(call, make);
}

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & O_CREAT) ? va_arg(list, mode_t) : 0;
  va_end(list);
  return holdfast::PassOpen(AT_FDCWD, path, flags, mode);
}

int openat(int directory, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & O_CREAT) ? va_arg(list, mode_t) : 0;
  va_end(list);
  return holdfast::PassOpen(directory, path, flags, mode);
}

int creat(const char* path, mode_t mode) {
  return holdfast::PassOpen(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int mkdir(const char* path, mode_t mode) noexcept {
  return holdfast::PassMakeDirectory(AT_FDCWD, path, mode);
}

int mkdirat(int directory, const char* path, mode_t mode) noexcept {
  return holdfast::PassMakeDirectory(directory, path, mode);
}

ssize_t write(int fd, const void* data, size_t size) {
  const iovec piece{const_cast<void*>(data), size};
  return holdfast::PassWrite(fd, {&piece, 1}, -1);
}

ssize_t writev(int fd, const iovec* pieces, int piece_count) {
  return holdfast::PassWrite(fd, {pieces, static_cast<size_t>(piece_count)},
                             -1);
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  const iovec piece{const_cast<void*>(data), size};
  return holdfast::PassWrite(fd, {&piece, 1}, offset);
}

ssize_t pwritev(int fd, const iovec* pieces, int piece_count, off_t offset) {
  return holdfast::PassWrite(fd, {pieces, static_cast<size_t>(piece_count)},
                             offset);
}

int ftruncate(int fd, off_t size) noexcept {
  const FileCall call{.kind = FileCallKind::kResize, .fd = fd, .offset = size};
  return static_cast<int>(holdfast::Pass(
      call, [&] { return holdfast::Marked(SYS_ftruncate, fd, size); }));
}

int rename(const char* from, const char* to) noexcept {
  return holdfast::PassRename(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat(int from_directory, const char* from, int to_directory,
             const char* to) noexcept {
  return holdfast::PassRename(from_directory, from, to_directory, to, 0);
}

int renameat2(int from_directory, const char* from, int to_directory,
              const char* to, unsigned flags) noexcept {
  return holdfast::PassRename(from_directory, from, to_directory, to, flags);
}

int linkat(int from_directory, const char* from, int to_directory,
           const char* to, int flags) noexcept {
  const FileCall call{.kind = FileCallKind::kLink,
                      .directory = from_directory,
                      .path = from,
                      .to_directory = to_directory,
                      .to = to};
  return static_cast<int>(holdfast::Pass(call, [&] {
    return holdfast::Marked(SYS_linkat, from_directory, from, to_directory, to,
                            flags);
  }));
}

int link(const char* from, const char* to) noexcept {
  return ::linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int symlink(const char* target, const char* path) noexcept {
  const FileCall call{
      .kind = FileCallKind::kSymlink, .path = path, .to = target};
  return static_cast<int>(holdfast::Pass(call, [&] {
    return holdfast::Marked(SYS_symlinkat, target, AT_FDCWD, path);
  }));
}

// Copies at most 4 KiB (the caller must accept a short copy), by a write that
// hooks see.
ssize_t copy_file_range(int from, off64_t* from_offset, int to,
                        off64_t* to_offset, size_t size, unsigned) {
  char bytes[4096];
  if (from_offset == nullptr || to_offset == nullptr) {
    errno = EINVAL;  // no caller uses the files' own positions
    return -1;
  }
  const ssize_t got =
      ::pread(from, bytes, std::min(size, sizeof bytes), *from_offset);
  if (got <= 0) return got;
  const iovec piece{bytes, static_cast<size_t>(got)};
  const ssize_t written = holdfast::PassWrite(to, {&piece, 1}, *to_offset);
  if (written <= 0) return written;
  *from_offset += written;
  *to_offset += written;
  return written;
}

int unlink(const char* path) noexcept {
  return holdfast::PassUnlink(AT_FDCWD, path, 0);
}

int unlinkat(int directory, const char* path, int flags) noexcept {
  return holdfast::PassUnlink(directory, path, flags);
}

int rmdir(const char* path) noexcept {
  return holdfast::PassUnlink(AT_FDCWD, path, AT_REMOVEDIR);
}

int chmod(const char* path, mode_t mode) noexcept {
  const FileCall call{.kind = FileCallKind::kChangeMode, .path = path};
  return static_cast<int>(holdfast::Pass(call, [&] {
    return holdfast::Marked(SYS_fchmodat, AT_FDCWD, path, mode);
  }));
}

int fchmod(int fd, mode_t mode) noexcept {
  const FileCall call{.kind = FileCallKind::kChangeMode, .fd = fd};
  return static_cast<int>(holdfast::Pass(
      call, [&] { return holdfast::Marked(SYS_fchmod, fd, mode); }));
}

int fchmodat(int directory, const char* path, mode_t mode, int flags) noexcept {
  const FileCall call{
      .kind = FileCallKind::kChangeMode, .directory = directory, .path = path};
  if (flags != 0) {
    errno = ENOTSUP;
    return -1;
  }
  return static_cast<int>(holdfast::Pass(call, [&] {
    return holdfast::Marked(SYS_fchmodat, directory, path, mode);
  }));
}

int fsync(int fd) { return holdfast::PassSync(fd, SYS_fsync); }

int fdatasync(int fd) { return holdfast::PassSync(fd, SYS_fdatasync); }

ssize_t pread(int fd, void* data, size_t size, off_t offset) {
  const FileCall call{.kind = FileCallKind::kRead, .fd = fd};
  return holdfast::Pass(call, [&] {
    return holdfast::Marked(SYS_pread64, fd, data, size, offset);
  });
}

int fstat(int fd, struct stat* info) noexcept {
  const FileCall call{.kind = FileCallKind::kStat, .fd = fd};
  static auto* const real = holdfast::Real<int(int, struct stat*)>("fstat");
  return static_cast<int>(
      holdfast::Pass(call, [&]() -> long { return real(fd, info); }));
}

int lstat(const char* path, struct stat* info) noexcept {
  return holdfast::PassStat(AT_FDCWD, path, info, AT_SYMLINK_NOFOLLOW);
}

int stat(const char* path, struct stat* info) noexcept {
  return holdfast::PassStat(AT_FDCWD, path, info, 0);
}

int fstatat(int directory, const char* path, struct stat* info,
            int flags) noexcept {
  return holdfast::PassStat(directory, path, info, flags);
}

dirent* readdir(DIR* stream) {
  const FileCall call{.kind = FileCallKind::kListDirectory,
                      .fd = ::dirfd(stream)};
  static auto* const real = holdfast::Real<dirent*(DIR*)>("readdir");
  dirent* item = nullptr;
  const long result = holdfast::Pass(call, [&]() -> long {
    item = real(stream);
    return 0;
  });
  return result < 0 ? nullptr : item;
}

}  // extern "C"
