// Which system calls of a traced process may change files, and what they mean.
//
// Only Linux on x86-64 and aarch64.
// Thread-safety: pure, but for what it reads from the stopped process.
// Errors: absent for another call, or one that cannot be read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "holdfast/status.h"
#include "tools/powerloss/file_call.h"

namespace holdfast {

// As the kernel gives it for PTRACE_GET_SYSCALL_INFO (Linux 5.3).
struct SystemCall {
  uint8_t op = 0;
  uint8_t padding[3] = {};
  uint32_t arch = 0;
  uint64_t instruction = 0;
  uint64_t stack = 0;
  union {
    struct {
      uint64_t number;
      uint64_t args[6];
    } entry;
    struct {
      int64_t value;
      uint8_t is_error;
    } exit;
  };
};
inline constexpr int kGetSyscallInfo = 0x420e;

// A directory of this name, which nobody has, is removed to leave a mark.
inline constexpr char kMarkPrefix[] = ".holdfast-crash-mark ";

struct TraceeCall {
  enum class Way : uint8_t {
    kByPath,    // `path`, `to`: names change, or a file is opened or cut
    kByFd,      // `fd`: bytes change, or are synced
    kAllocate,  // fallocate
    kClone,     // the whole of `fd` becomes another file's
    kSyncAll,
    kSyncFileSystem,  // of `fd`
    kMap,             // `fd` is mapped shared and writable
    kSyncMemory,      // `address`, `length`
    kForeign,         // made by a program for another processor
  };
  Way way = Way::kByPath;
  FileCallKind kind = FileCallKind::kSync;
  std::string path;  // as this process can reach it; a link's content: `to`
  std::string to;
  int fd = -1;  // of the tracee
  int flags = 0;
  // kWrite: -1 is the file's own position. kResize: the new size.
  int64_t offset = -1;
  bool is_synced = false;  // the write itself
  uint64_t address = 0;
  uint64_t length = 0;
};

// The call of the thread `tid`, which stands before it.
std::optional<TraceeCall> DecodeCall(int tid, const SystemCall& call);

// From now on this process, and all that come of it, stop before each of them
// for their tracer. Async-signal-safe. False: errno says why.
bool InstallTraceFilter();

}  // namespace holdfast
