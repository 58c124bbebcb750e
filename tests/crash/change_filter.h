// A seccomp filter that ends the process at any system call that could change
// files, unless its sixth argument is a mark. It proves that no call bypasses
// libc_calls.cc.
//
// Thread-safety: call it while there is only one thread; it applies to all
// threads started later. Errors: false where filters are unavailable.
#pragma once

namespace holdfast {

inline constexpr long kChangeMark = 0x686f6c64;

// Installs the filter. An unmarked change then writes the number of its system
// call to stderr and exits with `exit_status`. Writes to stdout and stderr, and
// opening without O_CREAT and O_TRUNC, are allowed.
bool InstallChangeFilter(int exit_status);

}  // namespace holdfast
