#include "crash/change_filter.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace holdfast {
namespace {

constexpr uint32_t kChangingCalls[] = {
#ifdef SYS_open
    SYS_creat,           SYS_mkdir,          SYS_rename,
    SYS_renameat,        SYS_link,           SYS_symlink,
    SYS_unlink,          SYS_rmdir,          SYS_chmod,
    SYS_mknod,           SYS_chown,          SYS_lchown,
    SYS_utimes,          SYS_futimesat,      SYS_utime,
#endif
    SYS_mkdirat,         SYS_renameat2,      SYS_linkat,
    SYS_symlinkat,       SYS_unlinkat,       SYS_pwrite64,
    SYS_writev,          SYS_pwritev,        SYS_pwritev2,
    SYS_truncate,        SYS_ftruncate,      SYS_fallocate,
    SYS_fsync,           SYS_fdatasync,      SYS_sync,
    SYS_syncfs,          SYS_sendfile,       SYS_splice,
    SYS_copy_file_range, SYS_fchmod,         SYS_fchmodat,
    SYS_fchown,          SYS_fchownat,       SYS_mknodat,
    SYS_utimensat,       SYS_setxattr,       SYS_lsetxattr,
    SYS_fsetxattr,       SYS_io_uring_setup, SYS_io_uring_enter,
};

int exit_status_of_escape = 1;

void NameAndExit(int, siginfo_t* info, void*) {
  char text[80];
  const int size =
      std::snprintf(text, sizeof text, "system call %d changes files unseen\n",
                    info->si_syscall);
  if (::write(2, text, static_cast<size_t>(size)) < 0) ::_exit(1);
  ::_exit(exit_status_of_escape);
}

class Filter {
 public:
  Filter() { Load(offsetof(seccomp_data, nr)); }

  void CheckMark(uint32_t number) {
    Unless(number, 4);
    AllowIfMarked();
  }
  // Allows the call if it is marked, or if the argument has no bit of `mask`.
  void CheckMarkIfBits(uint32_t number, int argument, uint32_t mask) {
    Unless(number, 7);
    Load(offsetof(seccomp_data, args) + 8 * argument);
    Add(BPF_JMP | BPF_JSET | BPF_K, mask, 1, 0);
    Return(SECCOMP_RET_ALLOW);
    AllowIfMarked();
  }
  // Allows the call if it is marked, or if the argument is at most `value`.
  void CheckMarkIfAbove(uint32_t number, int argument, uint32_t value) {
    Unless(number, 7);
    Load(offsetof(seccomp_data, args) + 8 * argument);
    Add(BPF_JMP | BPF_JGT | BPF_K, value, 1, 0);
    Return(SECCOMP_RET_ALLOW);
    AllowIfMarked();
  }
  // Forbids mmap with MAP_SHARED and PROT_WRITE, which is never marked.
  void ForbidSharedWritableMaps() {
    Unless(SYS_mmap, 8);
    Load(offsetof(seccomp_data, args) + 8 * 2);
    Add(BPF_JMP | BPF_JSET | BPF_K, PROT_WRITE, 1, 0);
    Return(SECCOMP_RET_ALLOW);
    Load(offsetof(seccomp_data, args) + 8 * 3);
    Add(BPF_ALU | BPF_AND | BPF_K, MAP_SHARED | MAP_ANONYMOUS, 0, 0);
    Add(BPF_JMP | BPF_JEQ | BPF_K, MAP_SHARED, 1, 0);
    Return(SECCOMP_RET_ALLOW);
    Return(SECCOMP_RET_TRAP);
  }

  bool Install() {
    Return(SECCOMP_RET_ALLOW);
    const sock_fprog program{static_cast<unsigned short>(code_.size()),
                             code_.data()};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  }

 private:
  void Add(int code, uint32_t k, uint8_t jump_true, uint8_t jump_false) {
    code_.push_back({static_cast<uint16_t>(code), jump_true, jump_false, k});
  }
  void Load(size_t offset) {
    Add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset), 0, 0);
  }
  void Return(uint32_t action) { Add(BPF_RET | BPF_K, action, 0, 0); }
  // Skips the next `instruction_count` instructions for other system calls. The
  // call's number stays loaded.
  void Unless(uint32_t number, uint8_t instruction_count) {
    Add(BPF_JMP | BPF_JEQ | BPF_K, number, 0, instruction_count);
  }
  void AllowIfMarked() {  // 4 instructions
    Load(offsetof(seccomp_data, args) + 8 * 5);
    Add(BPF_JMP | BPF_JEQ | BPF_K, kChangeMark, 0, 1);
    Return(SECCOMP_RET_ALLOW);
    Return(SECCOMP_RET_TRAP);
  }

  std::vector<sock_filter> code_;
};

}  // namespace

bool InstallChangeFilter(int exit_status) {
  exit_status_of_escape = exit_status;
  struct sigaction action{};
  action.sa_sigaction = NameAndExit;
  action.sa_flags = SA_SIGINFO;
  if (::sigaction(SIGSYS, &action, nullptr) != 0) return false;
  Filter filter;
  for (const uint32_t number : kChangingCalls) filter.CheckMark(number);
  filter.CheckMarkIfBits(SYS_openat, 2, O_CREAT | O_TRUNC);
#ifdef SYS_open
  filter.CheckMarkIfBits(SYS_open, 1, O_CREAT | O_TRUNC);
#endif
  filter.CheckMarkIfAbove(SYS_write, 0, 2);
  filter.ForbidSharedWritableMaps();
  return filter.Install();
}

}  // namespace holdfast
