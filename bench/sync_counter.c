/* Counts the syncs and renames of a program that is started with this library
 * in LD_PRELOAD. bench/sync_counts.py builds the library and reads its
 * counters.
 *
 * Only calls that succeed count. Thread-safety: any thread.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_SYNC, DIRECTORY_SYNC, RENAME, CREATE, MKDIR, COUNTER_COUNT };
static _Atomic uint64_t counters[COUNTER_COUNT];

/* Copies the counters to `target` and sets them to 0. Called with ctypes. */
void sync_counter_take(uint64_t* target) {
  for (int i = 0; i < COUNTER_COUNT; ++i) {
    target[i] = atomic_exchange(&counters[i], 0);
  }
}

static int count(int result, int counter) {
  if (result >= 0) atomic_fetch_add(&counters[counter], 1);
  return result;
}

static int sync_counter_of(int fd) {
  struct stat info;
  const int is_directory = fstat(fd, &info) == 0 && S_ISDIR(info.st_mode);
  return is_directory ? DIRECTORY_SYNC : FILE_SYNC;
}

#define REAL(type, name, ...)                                  \
  static type (*real)(__VA_ARGS__);                            \
  if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

int fsync(int fd) {
  REAL(int, "fsync", int);
  return count(real(fd), sync_counter_of(fd));
}

int fdatasync(int fd) {
  REAL(int, "fdatasync", int);
  return count(real(fd), sync_counter_of(fd));
}

int syncfs(int fd) {
  REAL(int, "syncfs", int);
  return count(real(fd), FILE_SYNC);
}

int rename(const char* from, const char* to) {
  REAL(int, "rename", const char*, const char*);
  return count(real(from, to), RENAME);
}

int renameat(int from_fd, const char* from, int to_fd, const char* to) {
  REAL(int, "renameat", int, const char*, int, const char*);
  return count(real(from_fd, from, to_fd, to), RENAME);
}

int renameat2(int from_fd, const char* from, int to_fd, const char* to,
              unsigned flags) {
  REAL(int, "renameat2", int, const char*, int, const char*, unsigned);
  return count(real(from_fd, from, to_fd, to, flags), RENAME);
}

int mkdir(const char* path, mode_t mode) {
  REAL(int, "mkdir", const char*, mode_t);
  return count(real(path, mode), MKDIR);
}

int mkdirat(int fd, const char* path, mode_t mode) {
  REAL(int, "mkdirat", int, const char*, mode_t);
  return count(real(fd, path, mode), MKDIR);
}

#define OPEN(function, name)                                        \
  int function(const char* path, int flags, ...) {                  \
    REAL(int, name, const char*, int, ...);                         \
    va_list list;                                                   \
    va_start(list, flags);                                          \
    const mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0; \
    va_end(list);                                                   \
    const int fd = real(path, flags, mode);                         \
    return flags & O_CREAT ? count(fd, CREATE) : fd;                \
  }
OPEN(open, "open")
OPEN(open64, "open64")

#define OPENAT(function, name)                                      \
  int function(int fd, const char* path, int flags, ...) {          \
    REAL(int, name, int, const char*, int, ...);                    \
    va_list list;                                                   \
    va_start(list, flags);                                          \
    const mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0; \
    va_end(list);                                                   \
    const int made = real(fd, path, flags, mode);                   \
    return flags & O_CREAT ? count(made, CREATE) : made;            \
  }
OPENAT(openat, "openat")
OPENAT(openat64, "openat64")
