// Decodes those system calls of a traced process that may change files.
//
// Only for Linux on x86-64 and aarch64.
// Thread-safety: pure, apart from reading from the stopped process.
// Errors: nullopt for any other call, and for a call whose arguments cannot be
// read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "holdfast/status.h"
#include "tools/powerloss/file_call.h"

namespace holdfast {

// The layout that the kernel fills in for PTRACE_GET_SYSCALL_INFO (Linux 5.3).
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

// A program leaves a mark by removing a directory with this prefix, which does
// not exist.
inline constexpr char kMarkPrefix[] = ".holdfast-crash-mark ";

struct TraceeCall {
  enum class Way : uint8_t {
    kByPath,    // `path`, `to`: changes names, or opens or truncates a file
    kByFd,      // `fd`: changes or syncs bytes
    kAllocate,  // fallocate
    kClone,     // another file gets the content of `fd`
    kSyncAll,
    kSyncFileSystem,  // of `fd`
    kMap,             // `fd` is mapped shared and writable
    kSyncMemory,      // `address`, `length`
    kForeign,         // made by a program for another processor
  };
  Way way = Way::kByPath;
  FileCallKind kind = FileCallKind::kSync;
  std::string path;  // as this process can reach it; for a link, `to` is its
                     // content
  std::string to;
  int fd = -1;  // of the tracee
  int flags = 0;
  // kWrite: -1 means the file's own position. kResize: the new size.
  int64_t offset = -1;
  bool is_synced = false;  // the write itself syncs
  uint64_t address = 0;
  uint64_t length = 0;
};

// Decodes the call that the thread `tid` is about to make.
std::optional<TraceeCall> DecodeCall(int tid, const SystemCall& call);

// Makes this process and all its future descendants stop for their tracer
// before each call that may change files. Async-signal-safe. If it returns
// false, errno says why.
bool InstallTraceFilter();

}  // namespace holdfast
