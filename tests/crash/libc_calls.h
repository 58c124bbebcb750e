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

#include <functional>
#include <span>
#include <string_view>

#include "tools/powerloss/file_call.h"

namespace holdfast {

inline bool IsChange(FileCallKind kind) { return kind <= FileCallKind::kSync; }
std::string_view FileCallKindName(FileCallKind kind);

class CallHook {
 public:
  virtual ~CallHook() = default;
  // `make` makes the call; both give libc's result, and errno.
  virtual long Run(const FileCall& call, const std::function<long()>& make) = 0;
};

// The hook is in force from construction to destruction; one at a time.
class ScopedCallHook {
 public:
  explicit ScopedCallHook(CallHook* hook);
  ~ScopedCallHook();
  ScopedCallHook(const ScopedCallHook&) = delete;
  ScopedCallHook& operator=(const ScopedCallHook&) = delete;
};

// The abilities of renames, from construction to destruction of a
// ScopedRenames.
enum class Renames {
  kAll,
  kPlain,    // they know no flags, as on NFS, 9p and most of FUSE
  kOfFiles,  // nor directories
};
class ScopedRenames {
 public:
  explicit ScopedRenames(Renames renames);
  ~ScopedRenames();
  ScopedRenames(const ScopedRenames&) = delete;
  ScopedRenames& operator=(const ScopedRenames&) = delete;
};

// The first `byte_count` bytes of the call's pieces, written past the hook, as
// by a system that is interrupted. libc's result.
long WriteFirstBytes(const FileCall& call, size_t byte_count);
size_t TotalBytes(std::span<const iovec> pieces);

// From now on any system call of this process that changes files and does not
// come from here ends it: with kEscapeExit, after naming the call on stderr.
// False where the kernel has no seccomp filters.
bool ForbidOtherChanges();
inline constexpr int kEscapeExit = 99;

}  // namespace holdfast
