#include "tools/prove/tracee_calls.h"

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))

#include <linux/audit.h>
#include <linux/falloc.h>
#include <linux/filter.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <iterator>

namespace holdfast {

using Way = TraceeCall::Way;

namespace {

#ifdef __x86_64__
constexpr uint32_t kNativeArch = AUDIT_ARCH_X86_64;
#else
constexpr uint32_t kNativeArch = AUDIT_ARCH_AARCH64;
#endif
constexpr uint32_t kOtherAbi = 0x40000000;  // x32
// These have the same number on all architectures, and are missing in old
// headers.
constexpr long kIoUringSetup = 425;
constexpr long kOpenat2 = 437;
constexpr uint32_t kCloneFile = 0x40049409;        // FICLONE
constexpr uint32_t kCloneRange = 0x4020940d;       // FICLONERANGE
constexpr uint32_t kSyncedWriteFlags = 0x2 | 0x4;  // RWF_DSYNC, RWF_SYNC
// O_TMPFILE without the bit of O_DIRECTORY.
constexpr uint32_t kChangingOpen =
    O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY);

constexpr uint32_t kTracedCalls[] = {
#ifdef SYS_open
    SYS_creat,     SYS_mkdir,           SYS_rename,    SYS_link,
    SYS_symlink,   SYS_unlink,          SYS_rmdir,
#endif
#ifdef SYS_renameat
    SYS_renameat,
#endif
    kOpenat2,      SYS_mkdirat,         SYS_renameat2, SYS_linkat,
    SYS_symlinkat, SYS_unlinkat,        SYS_write,     SYS_pwrite64,
    SYS_writev,    SYS_pwritev,         SYS_pwritev2,  SYS_truncate,
    SYS_ftruncate, SYS_fallocate,       SYS_fsync,     SYS_fdatasync,
    SYS_sync,      SYS_syncfs,          SYS_msync,     SYS_sendfile,
    SYS_splice,    SYS_copy_file_range,
};

constexpr int kInstructionsMax = 2 * std::size(kTracedCalls) + 60;

// A filter program for seccomp. It is built on the stack, because a child after
// fork must not allocate memory.
class TraceFilter {
 public:
  void Load(size_t offset) {
    Add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset), 0, 0);
  }
  void LoadArgument(int index) {
    Load(offsetof(seccomp_data, args) + 8 * static_cast<size_t>(index));
  }
  void Return(uint32_t action) { Add(BPF_RET | BPF_K, action, 0, 0); }
  // Makes the next `skipped` instructions apply only to `value`.
  void OnlyFor(uint32_t value, uint8_t skipped) {
    Add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skipped);
  }
  void TraceIfAnyBit(uint32_t mask) {
    Add(BPF_JMP | BPF_JSET | BPF_K, mask, 0, 1);
    Return(SECCOMP_RET_TRACE);
  }
  void Add(int code, uint32_t k, uint8_t jump_true, uint8_t jump_false) {
    code_[size_++] = {static_cast<uint16_t>(code), jump_true, jump_false, k};
  }
  bool Install() {
    const sock_fprog program{static_cast<unsigned short>(size_), code_};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  }

 private:
  sock_filter code_[kInstructionsMax];
  int size_ = 0;
};

void TraceOpen(uint32_t number, int flags_index, TraceFilter& filter) {
  filter.OnlyFor(number, 4);
  filter.LoadArgument(flags_index);
  filter.TraceIfAnyBit(kChangingOpen);
  filter.Return(SECCOMP_RET_ALLOW);
}

void TraceSharedMaps(TraceFilter& filter) {
  filter.OnlyFor(SYS_mmap, 7);
  filter.LoadArgument(2);
  filter.Add(BPF_JMP | BPF_JSET | BPF_K, PROT_WRITE, 0, 4);
  filter.LoadArgument(3);
  filter.Add(BPF_ALU | BPF_AND | BPF_K, MAP_SHARED | MAP_ANONYMOUS, 0, 0);
  filter.OnlyFor(MAP_SHARED, 1);
  filter.Return(SECCOMP_RET_TRACE);
  filter.Return(SECCOMP_RET_ALLOW);
}

void TraceClones(TraceFilter& filter) {
  filter.OnlyFor(SYS_ioctl, 6);
  filter.LoadArgument(1);
  filter.OnlyFor(kCloneFile, 1);
  filter.Return(SECCOMP_RET_TRACE);
  filter.OnlyFor(kCloneRange, 1);
  filter.Return(SECCOMP_RET_TRACE);
  filter.Return(SECCOMP_RET_ALLOW);
}

std::string ProcPath(int tid, const char* what) {
  return "/proc/" + std::to_string(tid) + "/" + what;
}

bool ReadMemory(int tid, uint64_t address, void* target, size_t size) {
  const iovec local{target, size};
  const iovec remote{reinterpret_cast<void*>(address), size};
  return ::process_vm_readv(tid, &local, 1, &remote, 1, 0) ==
         static_cast<ssize_t>(size);
}

std::optional<std::string> ReadText(int tid, uint64_t address) {
  constexpr uint64_t kPage = 4096;
  std::string text;
  while (text.size() < 2 * kPage) {
    char part[kPage];
    const size_t size = kPage - (address + text.size()) % kPage;
    if (!ReadMemory(tid, address + text.size(), part, size)) break;
    const char* const end = std::find(part, part + size, '\0');
    text.append(part, static_cast<size_t>(end - part));
    if (end != part + size) return text;
  }
  return std::nullopt;
}

int FdOf(uint64_t argument) { return static_cast<int>(argument); }

class Decoder {
 public:
  Decoder(int tid, const SystemCall& call) : tid_(tid), a_(call.entry.args) {}

  std::optional<TraceeCall> Decode(long number) {
    switch (number) {
#ifdef SYS_open
      case SYS_open:
        return Open(AT_FDCWD, a_[0], FlagsOf(a_[1]));
      case SYS_creat:
        return Open(AT_FDCWD, a_[0], O_CREAT | O_TRUNC);
      case SYS_mkdir:
        return Names(FileCallKind::kMakeDirectory, AT_FDCWD, a_[0]);
      case SYS_rename:
        return Pair(FileCallKind::kRename, AT_FDCWD, a_[0], AT_FDCWD, a_[1], 0);
      case SYS_link:
        return Pair(FileCallKind::kLink, AT_FDCWD, a_[0], AT_FDCWD, a_[1], 0);
      case SYS_symlink:
        return Symlink(a_[0], AT_FDCWD, a_[1]);
      case SYS_unlink:
      case SYS_rmdir:
        return Names(FileCallKind::kUnlink, AT_FDCWD, a_[0]);
#endif
      case SYS_openat:
        return Open(FdOf(a_[0]), a_[1], FlagsOf(a_[2]));
      case kOpenat2: {
        open_how how = {};
        if (!ReadMemory(tid_, a_[2], &how, sizeof how)) return std::nullopt;
        return Open(FdOf(a_[0]), a_[1], FlagsOf(how.flags));
      }
      case SYS_mkdirat:
        return Names(FileCallKind::kMakeDirectory, FdOf(a_[0]), a_[1]);
#ifdef SYS_renameat
      case SYS_renameat:
        return Pair(FileCallKind::kRename, FdOf(a_[0]), a_[1], FdOf(a_[2]),
                    a_[3], 0);
#endif
      case SYS_renameat2:
        return Pair(a_[4] & RENAME_EXCHANGE ? FileCallKind::kExchange
                                            : FileCallKind::kRename,
                    FdOf(a_[0]), a_[1], FdOf(a_[2]), a_[3], 0);
      case SYS_linkat:
        return Pair(FileCallKind::kLink, FdOf(a_[0]), a_[1], FdOf(a_[2]), a_[3],
                    FlagsOf(a_[4]));
      case SYS_symlinkat:
        return Symlink(a_[0], FdOf(a_[1]), a_[2]);
      case SYS_unlinkat:
        return Names(FileCallKind::kUnlink, FdOf(a_[0]), a_[1]);
      default:
        return DecodeBytes(number);
    }
  }

 private:
  static int FlagsOf(uint64_t argument) { return static_cast<int>(argument); }

  // Decodes calls that take a descriptor.
  std::optional<TraceeCall> DecodeBytes(long number) {
    switch (number) {
      case SYS_write:
      case SYS_writev:
        return Write(a_[0], -1);
      case SYS_pwrite64:
      case SYS_pwritev:
        return Write(a_[0], static_cast<int64_t>(a_[3]));
      case SYS_pwritev2: {
        TraceeCall call = Write(a_[0], static_cast<int64_t>(a_[3]));
        call.is_synced = (a_[5] & kSyncedWriteFlags) != 0;
        return call;
      }
      case SYS_sendfile:
        return Write(a_[0], -1);
      case SYS_splice:
      case SYS_copy_file_range: {
        int64_t offset = -1;
        if (a_[3] != 0 && !ReadMemory(tid_, a_[3], &offset, sizeof offset)) {
          return std::nullopt;
        }
        return Write(a_[2], offset);
      }
      case SYS_ioctl:
        return ByFd(Way::kClone, FileCallKind::kWrite, a_[0]);
      case SYS_ftruncate: {
        TraceeCall call = ByFd(Way::kByFd, FileCallKind::kResize, a_[0]);
        call.offset = static_cast<int64_t>(a_[1]);
        return call;
      }
      case SYS_truncate: {
        auto call = Names(FileCallKind::kResize, AT_FDCWD, a_[0]);
        if (call) call->offset = static_cast<int64_t>(a_[1]);
        return call;
      }
      case SYS_fallocate: {
        TraceeCall call = ByFd(Way::kAllocate, FileCallKind::kResize, a_[0]);
        call.flags = FlagsOf(a_[1]);
        call.offset = static_cast<int64_t>(a_[2]);
        call.length = a_[3];
        return call;
      }
      default:
        return DecodeSyncs(number);
    }
  }

  std::optional<TraceeCall> DecodeSyncs(long number) {
    switch (number) {
      case SYS_fsync:
      case SYS_fdatasync:
        return ByFd(Way::kByFd, FileCallKind::kSync, a_[0]);
      case SYS_sync:
        return ByFd(Way::kSyncAll, FileCallKind::kSync, 0);
      case SYS_syncfs:
        return ByFd(Way::kSyncFileSystem, FileCallKind::kSync, a_[0]);
      case SYS_msync: {
        if ((a_[2] & MS_SYNC) == 0) return std::nullopt;
        TraceeCall call = ByFd(Way::kSyncMemory, FileCallKind::kSync, 0);
        call.address = a_[0];
        call.length = a_[1];
        return call;
      }
      case SYS_mmap: {
        TraceeCall call = ByFd(Way::kMap, FileCallKind::kOpen, a_[4]);
        call.length = a_[1];
        return call;
      }
      default:
        return std::nullopt;
    }
  }

  std::optional<std::string> Path(int directory, uint64_t address) const {
    const auto text = ReadText(tid_, address);
    if (!text) return std::nullopt;
    for (const char* own : {"/proc/self/", "/proc/thread-self/", "/dev/fd/"}) {
      if (!text->starts_with(own)) continue;
      const std::string rest = text->substr(std::string_view(own).size());
      return ProcPath(tid_, own[1] == 'd' ? "fd/" : "") + rest;
    }
    if (text->starts_with('/')) return ProcPath(tid_, "root") + *text;
    const std::string base =
        directory == AT_FDCWD
            ? ProcPath(tid_, "cwd")
            : ProcPath(tid_, "fd/") + std::to_string(directory);
    return text->empty() ? base : base + "/" + *text;
  }

  std::optional<TraceeCall> Names(FileCallKind kind, int directory,
                                  uint64_t address) const {
    const auto path = Path(directory, address);
    if (!path) return std::nullopt;
    TraceeCall call;
    call.kind = kind;
    call.path = *path;
    return call;
  }

  std::optional<TraceeCall> Open(int directory, uint64_t address,
                                 int flags) const {
    if ((flags & kChangingOpen) == 0) return std::nullopt;
    auto call = Names(FileCallKind::kCreate, directory, address);
    if (call) call->flags = flags;
    return call;
  }

  std::optional<TraceeCall> Pair(FileCallKind kind, int directory,
                                 uint64_t address, int to_directory,
                                 uint64_t to_address, int flags) const {
    auto call = Names(kind, directory, address);
    const auto to = Path(to_directory, to_address);
    if (!call || !to) return std::nullopt;
    call->to = *to;
    call->flags = flags & AT_EMPTY_PATH ? AT_SYMLINK_FOLLOW : flags;
    return call;
  }

  std::optional<TraceeCall> Symlink(uint64_t content, int directory,
                                    uint64_t address) const {
    auto call = Names(FileCallKind::kSymlink, directory, address);
    const auto text = ReadText(tid_, content);
    if (!call || !text) return std::nullopt;
    call->to = *text;
    return call;
  }

  static TraceeCall ByFd(Way way, FileCallKind kind, uint64_t fd) {
    TraceeCall call;
    call.way = way;
    call.kind = kind;
    call.fd = FdOf(fd);
    return call;
  }
  static TraceeCall Write(uint64_t fd, int64_t offset) {
    TraceeCall call = ByFd(Way::kByFd, FileCallKind::kWrite, fd);
    call.offset = offset;
    return call;
  }

  const int tid_;
  const uint64_t* const a_;
};

}  // namespace

std::optional<TraceeCall> DecodeCall(int tid, const SystemCall& call) {
  if (call.arch != kNativeArch || call.entry.number >= kOtherAbi) {
    TraceeCall foreign;
    foreign.way = Way::kForeign;
    return foreign;
  }
  return Decoder(tid, call).Decode(static_cast<long>(call.entry.number));
}

bool InstallTraceFilter() {
  TraceFilter filter;
  filter.Load(offsetof(seccomp_data, arch));
  filter.Add(BPF_JMP | BPF_JEQ | BPF_K, kNativeArch, 1, 0);
  filter.Return(SECCOMP_RET_TRACE);
  filter.Load(offsetof(seccomp_data, nr));
  filter.Add(BPF_JMP | BPF_JGE | BPF_K, kOtherAbi, 0, 1);
  filter.Return(SECCOMP_RET_TRACE);
  for (const uint32_t number : kTracedCalls) {
    filter.OnlyFor(number, 1);
    filter.Return(SECCOMP_RET_TRACE);
  }
  TraceOpen(SYS_openat, 2, filter);
#ifdef SYS_open
  TraceOpen(SYS_open, 1, filter);
#endif
  TraceSharedMaps(filter);
  TraceClones(filter);
  // Operations of io_uring bypass system calls. A program that cannot set it up
  // uses system calls instead.
  filter.OnlyFor(kIoUringSetup, 1);
  filter.Return(SECCOMP_RET_ERRNO | ENOSYS);
  filter.Return(SECCOMP_RET_ALLOW);
  return filter.Install();
}

}  // namespace holdfast

#endif
