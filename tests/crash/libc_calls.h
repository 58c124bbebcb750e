// Passes all libc calls of a test program that touch files through a hook.
//
// The program's own definitions take precedence over libc's, so every call of
// the engine arrives here before it becomes a system call. A hook sees each
// call and may make, alter or refuse it: in this way tests record a save, stop
// it at its k-th change, or make it fail.
//
// Thread-safety: any thread; several threads call a hook concurrently. Calls
// that a hook makes itself go directly to the system. Ownership: borrows the
// hook.
// Errors: as in libc: -1 and errno.
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
  // Handles a call. `make` makes the call. Run and `make` return libc's result
  // and set errno.
  virtual long Run(const FileCall& call, const std::function<long()>& make) = 0;
};

// Makes a hook active from construction to destruction. Only one hook may be
// active at a time.
class ScopedCallHook {
 public:
  explicit ScopedCallHook(CallHook* hook);
  ~ScopedCallHook();
  ScopedCallHook(const ScopedCallHook&) = delete;
  ScopedCallHook& operator=(const ScopedCallHook&) = delete;
};

// The renames that the file system supports, during the lifetime of a
// ScopedRenames.
enum class Renames {
  kAll,
  kPlain,    // without flags, as on NFS, 9p and most of FUSE
  kOfFiles,  // without flags, and not of directories
};
class ScopedRenames {
 public:
  explicit ScopedRenames(Renames renames);
  ~ScopedRenames();
  ScopedRenames(const ScopedRenames&) = delete;
  ScopedRenames& operator=(const ScopedRenames&) = delete;
};

// Writes only the first `byte_count` bytes of the call's pieces, as an
// interrupted system call would. Bypasses the hook. Returns libc's result.
long WriteFirstBytes(const FileCall& call, size_t byte_count);
size_t TotalBytes(std::span<const iovec> pieces);

// After this call, any system call that changes files and was not made by
// libc_calls.cc ends the process with kEscapeExit, and is named on stderr.
// Returns false if the kernel does not support seccomp filters.
bool ForbidOtherChanges();
inline constexpr int kEscapeExit = 99;

}  // namespace holdfast
