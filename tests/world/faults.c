// Replaces the libc calls with which holdfast touches files, so that they can
// fail. The process that plays loads it before libc (LD_PRELOAD), and arms it
// with ctypes.
//
// Only calls on files below the armed folder count. Call number `at` after the
// arming is not made. With kKill, the process ends there, after the first half
// of the bytes if the call is a write. Otherwise the call fails with the given
// error, as do all later calls if the fault is to stay. Thread-safety: any
// thread.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum Kind { kOff = 0, kKill = 1, kChange = 2, kRead = 3 };

static _Atomic int kind = kOff;
static _Atomic long calls_left = 0;
static _Atomic int fault_error = 0;
static _Atomic int stays = 0;
static _Atomic int is_hit = 0;
static char folder[PATH_MAX];

void world_arm(int new_kind, long at, int error, int fault_stays,
               const char* below) {
  snprintf(folder, sizeof folder, "%s", below);
  calls_left = at;
  fault_error = error;
  stays = fault_stays;
  is_hit = 0;
  kind = new_kind;
}

// Disarms the fault; returns whether it has occurred.
int world_disarm(void) {
  kind = kOff;
  return is_hit;
}

static int is_below(const char* path) {
  return strncmp(path, folder, strlen(folder)) == 0;
}

static int is_ours_fd(int fd) {
  char name[64], path[PATH_MAX];
  if (fd < 0) return 0;
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  const long size = syscall(SYS_readlinkat, AT_FDCWD, name, path,
                            sizeof path - 1);
  if (size <= 0) return 0;
  path[size] = 0;
  return is_below(path);
}

// Whether the path is below the armed folder, which is also the process's
// working directory.
static int is_ours(int directory, const char* path) {
  if (path == NULL) return 0;
  if (path[0] == '/') return is_below(path);
  return directory == AT_FDCWD || is_ours_fd(directory);
}

// Returns whether this call must fail. Does not return from the chosen call if
// the fault is kKill.
static int fails(int is_change) {
  const int now = kind;
  if (now == kOff || (now == kRead) == (is_change != 0)) return 0;
  const long left = atomic_fetch_sub(&calls_left, 1);
  if (left > 1 || (left < 1 && !stays)) return 0;
  is_hit = 1;
  if (now != kKill) errno = fault_error;
  return now;
}

static void end_now(void) { syscall(SYS_kill, getpid(), SIGKILL); }

#define GUARD_CHANGE(ours)            \
  if (kind != kOff && (ours)) {       \
    const int fault = fails(1);       \
    if (fault == kKill) end_now();    \
    if (fault != 0) return -1;        \
  }

#define GUARD_READ(ours) \
  if (kind == kRead && (ours) && fails(0)) return -1

static int guarded_open(int directory, const char* path, int flags,
                        mode_t mode) {
  if (flags & (O_CREAT | O_TRUNC)) {
    GUARD_CHANGE(is_ours(directory, path));
  } else {
    GUARD_READ(is_ours(directory, path));
  }
  return (int)syscall(SYS_openat, directory, path, flags, mode);
}

#define OPEN(name, parameters, directory)                             \
  int name parameters {                                               \
    va_list list;                                                     \
    va_start(list, flags);                                            \
    const mode_t mode = (flags & O_CREAT) ? va_arg(list, mode_t) : 0; \
    va_end(list);                                                     \
    return guarded_open(directory, path, flags, mode);                \
  }
OPEN(open, (const char* path, int flags, ...), AT_FDCWD)
OPEN(open64, (const char* path, int flags, ...), AT_FDCWD)
OPEN(openat, (int at, const char* path, int flags, ...), at)
OPEN(openat64, (int at, const char* path, int flags, ...), at)

int mkdir(const char* path, mode_t mode) {
  GUARD_CHANGE(is_ours(AT_FDCWD, path));
  return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int mkdirat(int at, const char* path, mode_t mode) {
  GUARD_CHANGE(is_ours(at, path));
  return (int)syscall(SYS_mkdirat, at, path, mode);
}

ssize_t write(int fd, const void* data, size_t size) {
  if (kind != kOff && is_ours_fd(fd)) {
    const int fault = fails(1);
    if (fault == kKill) {
      syscall(SYS_write, fd, data, size / 2);
      end_now();
    }
    if (fault != 0) return -1;
  }
  return syscall(SYS_write, fd, data, size);
}

ssize_t writev(int fd, const struct iovec* pieces, int count) {
  GUARD_CHANGE(is_ours_fd(fd));
  return syscall(SYS_writev, fd, pieces, count);
}

static ssize_t guarded_pwrite(int fd, const void* data, size_t size,
                              off_t offset) {
  if (kind != kOff && is_ours_fd(fd)) {
    const int fault = fails(1);
    if (fault == kKill) {
      syscall(SYS_pwrite64, fd, data, size / 2, offset);
      end_now();
    }
    if (fault != 0) return -1;
  }
  return syscall(SYS_pwrite64, fd, data, size, offset);
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  return guarded_pwrite(fd, data, size, offset);
}

ssize_t pwrite64(int fd, const void* data, size_t size, off64_t offset) {
  return guarded_pwrite(fd, data, size, offset);
}

static ssize_t guarded_pwritev(int fd, const struct iovec* pieces, int count,
                               off_t offset) {
  GUARD_CHANGE(is_ours_fd(fd));
  return syscall(SYS_pwritev, fd, pieces, count, offset, 0L);
}

ssize_t pwritev(int fd, const struct iovec* pieces, int count, off_t offset) {
  return guarded_pwritev(fd, pieces, count, offset);
}

ssize_t pwritev64(int fd, const struct iovec* pieces, int count,
                  off64_t offset) {
  return guarded_pwritev(fd, pieces, count, offset);
}

int ftruncate(int fd, off_t size) {
  GUARD_CHANGE(is_ours_fd(fd));
  return (int)syscall(SYS_ftruncate, fd, size);
}

int ftruncate64(int fd, off64_t size) {
  GUARD_CHANGE(is_ours_fd(fd));
  return (int)syscall(SYS_ftruncate, fd, size);
}

int fallocate(int fd, int mode, off_t offset, off_t size) {
  GUARD_CHANGE(is_ours_fd(fd));
  return (int)syscall(SYS_fallocate, fd, mode, offset, size);
}

int renameat2(int from_at, const char* from, int to_at, const char* to,
              unsigned flags) {
  GUARD_CHANGE(is_ours(from_at, from));
  return (int)syscall(SYS_renameat2, from_at, from, to_at, to, flags);
}

int rename(const char* from, const char* to) {
  return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat(int from_at, const char* from, int to_at, const char* to) {
  return renameat2(from_at, from, to_at, to, 0);
}

int linkat(int from_at, const char* from, int to_at, const char* to,
           int flags) {
  GUARD_CHANGE(is_ours(to_at, to));
  return (int)syscall(SYS_linkat, from_at, from, to_at, to, flags);
}

int link(const char* from, const char* to) {
  return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int symlinkat(const char* target, int at, const char* path) {
  GUARD_CHANGE(is_ours(at, path));
  return (int)syscall(SYS_symlinkat, target, at, path);
}

int symlink(const char* target, const char* path) {
  return symlinkat(target, AT_FDCWD, path);
}

int unlinkat(int at, const char* path, int flags) {
  GUARD_CHANGE(is_ours(at, path));
  return (int)syscall(SYS_unlinkat, at, path, flags);
}

int unlink(const char* path) { return unlinkat(AT_FDCWD, path, 0); }

int rmdir(const char* path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int fsync(int fd) {
  GUARD_CHANGE(is_ours_fd(fd));
  return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd) {
  GUARD_CHANGE(is_ours_fd(fd));
  return (int)syscall(SYS_fdatasync, fd);
}

ssize_t copy_file_range(int from, off64_t* from_offset, int to,
                        off64_t* to_offset, size_t size, unsigned flags) {
  GUARD_CHANGE(is_ours_fd(to));
  return syscall(SYS_copy_file_range, from, from_offset, to, to_offset, size,
                 flags);
}

static ssize_t guarded_pread(int fd, void* data, size_t size, off_t offset) {
  GUARD_READ(is_ours_fd(fd));
  return syscall(SYS_pread64, fd, data, size, offset);
}

ssize_t pread(int fd, void* data, size_t size, off_t offset) {
  return guarded_pread(fd, data, size, offset);
}

ssize_t pread64(int fd, void* data, size_t size, off64_t offset) {
  return guarded_pread(fd, data, size, offset);
}

ssize_t read(int fd, void* data, size_t size) {
  GUARD_READ(is_ours_fd(fd));
  return syscall(SYS_read, fd, data, size);
}
