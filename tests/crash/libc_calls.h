// The calls of libc that touch files, of a whole test program, behind a hook.
//
// Defining them in a program puts them before those of the shared library, so
// every call of the engine passes here and then becomes the system call. A hook
// sees each call, may make it, alter it or refuse it: that is how tests record
// a save, stop it at its k-th change, or fail it.
//
// Thread-safety: any thread; a hook is called by several at once. Calls that a
// hook makes itself go straight to the system. Ownership: borrows the hook.
// Errors: as libc: -1 and errno.
#pragma once

#include <fcntl.h>
#include <sys/uio.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace holdfast {

enum class CallKind : uint8_t {
  // They change what is on the disk.
  kCreate,  // open with O_CREAT or O_TRUNC
  kMakeDirectory,
  kWrite,
  kResize,
  kRename,
  kExchange,
  kLink,
  kSymlink,  // `to` is what it holds
  kUnlink,   // and rmdir
  kChangeMode,
  // They make changes last.
  kSync,
  // They only look.
  kOpen,
  kRead,
  kStat,
  kListDirectory,
};

inline bool IsChange(CallKind kind) { return kind <= CallKind::kSync; }
std::string_view CallKindName(CallKind kind);

// Fields that a kind does not use keep their defaults.
struct LibcCall {
  CallKind kind;
  int directory = AT_FDCWD;
  const char* path = nullptr;
  int to_directory = AT_FDCWD;
  const char* to = nullptr;
  int fd = -1;
  std::span<const iovec> pieces = {};  // kWrite
  // kWrite: -1 is the file's own position. kResize: the new size.
  off_t offset = -1;
  int flags = 0;  // kCreate and kOpen: of open
};

class CallHook {
 public:
  virtual ~CallHook() = default;
  // `make` makes the call; both give libc's result, and errno.
  virtual long Run(const LibcCall& call, const std::function<long()>& make) = 0;
};

// The hook is in force from construction to destruction; one at a time.
class ScopedCallHook {
 public:
  explicit ScopedCallHook(CallHook* hook);
  ~ScopedCallHook();
  ScopedCallHook(const ScopedCallHook&) = delete;
  ScopedCallHook& operator=(const ScopedCallHook&) = delete;
};

// The first `byte_count` bytes of the call's pieces, written past the hook, as
// by a system that is interrupted. libc's result.
long WriteFirstBytes(const LibcCall& call, size_t byte_count);
size_t TotalBytes(std::span<const iovec> pieces);

// From now on any system call of this process that changes files and does not
// come from here ends it: with kEscapeExit, after naming the call on stderr.
// False where the kernel has no seccomp filters.
bool ForbidOtherChanges();
inline constexpr int kEscapeExit = 99;

}  // namespace holdfast
