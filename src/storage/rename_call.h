// renameat2(2), which not every C library has (musl before 1.2.6).
#pragma once

#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace holdfast {

// The kernel's RENAME_NOREPLACE and RENAME_EXCHANGE.
inline constexpr unsigned kRenameNoReplace = 1;
inline constexpr unsigned kRenameExchange = 2;

// 0, or -1 with errno. Names are relative to `directory`.
inline int RenameWithFlags(int directory, const char* source,
                           const char* target, unsigned flags) {
#ifdef __GLIBC__  // also where tests of crashes see the call
  return ::renameat2(directory, source, directory, target, flags);
#else
  return static_cast<int>(
      ::syscall(SYS_renameat2, directory, source, directory, target, flags));
#endif
}

}  // namespace holdfast
