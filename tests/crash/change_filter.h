// A seccomp filter that ends the process at any system call that could change
// files, unless its sixth argument is a mark: proof that nothing goes past the
// calls of libc_calls.cc.
//
// Thread-safety: call it while there is one thread; it holds for all threads
// started later. Errors: false where filters are not to be had.
#pragma once

namespace holdfast {

inline constexpr long kChangeMark = 0x686f6c64;

// An unmarked change writes its number to stderr and exits with `exit_status`.
// Writes to stdout and stderr are free, and so is opening without O_CREAT and
// O_TRUNC.
bool InstallChangeFilter(int exit_status);

}  // namespace holdfast
