#include "tools/prove/tracer.h"

#include "tools/prove/tracee_calls.h"

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))

#include <fcntl.h>
#include <linux/falloc.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <map>
#include <optional>

#include "stores/storage/errno_status.h"
#include "stores/storage/unique_fd.h"
#include "tools/powerloss/change_recorder.h"
#include "tools/powerloss/disk_mirror.h"

extern char** environ;

namespace holdfast {

using Kind = DiskChange::Kind;
using Way = TraceeCall::Way;

namespace {

constexpr int kStopEvent = 128;  // PTRACE_EVENT_STOP
constexpr uint64_t kPageBytes = 4096;

std::string TraceePath(int tid, const std::string& what) {
  return "/proc/" + std::to_string(tid) + "/" + what;
}

UniqueFd OpenPath(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_PATH | O_CLOEXEC));
}

// Reads `size` bytes at `offset` of a descriptor's file, even if the descriptor
// is not open for reading.
std::optional<std::string> ReadBack(int fd, uint64_t offset, uint64_t size) {
  const UniqueFd file(::open(("/proc/self/fd/" + std::to_string(fd)).c_str(),
                             O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return std::nullopt;
  std::string data(size, '\0');
  uint64_t done = 0;
  while (done < size) {
    const ssize_t got = ::pread(file.get(), data.data() + done, size - done,
                                static_cast<off_t>(offset + done));
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    done += static_cast<uint64_t>(got);
  }
  data.resize(done);
  return data;
}

uint64_t SizeOfFd(int fd) {
  struct stat info;
  return ::fstat(fd, &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

// A tracee's descriptor: its position and flags.
struct FdInfo {
  uint64_t position = 0;
  int flags = 0;
};
FdInfo FdInfoOf(int tid, int fd) {
  std::ifstream file(TraceePath(tid, "fdinfo/" + std::to_string(fd)));
  FdInfo info;
  std::string word;
  while (file >> word) {
    if (word == "pos:") file >> info.position;
    if (word == "flags:") file >> std::oct >> info.flags >> std::dec;
  }
  return info;
}

int ProcessOf(int tid) {
  std::ifstream file(TraceePath(tid, "status"));
  std::string word;
  int process = tid;
  while (file >> word) {
    if (word == "Tgid:") file >> process;
  }
  return process;
}

// Turns the calls of tracees into changes.
class CallNotes {
 public:
  explicit CallNotes(const std::string& root) : recorder_(root) {
    struct stat info;
    if (::stat(root.c_str(), &info) == 0) device_ = info.st_dev;
  }

  struct Pending {
    TraceeCall call;
    UniqueFd fd;  // of this process, for `call.fd` or `call.path`
    ChangeRecorder::Before before;
    uint64_t size_before = 0;
  };
  // Returns nullopt if the call does not touch the root.
  std::optional<Pending> Begin(int tid, const TraceeCall& call);
  void End(int tid, Pending& pending, int64_t result);
  // Records bytes that were written through memory since the last call.
  void NoteMapped();
  void Mark(std::string text) {
    run_.marks.push_back({recorder_.record().changes.size(), std::move(text)});
  }
  void Miss(std::string why) {
    if (run_.gap.empty()) run_.gap = std::move(why);
  }
  TracedRun Take(const std::string& root);

 private:
  struct Mapped {
    UniqueFd fd;
    std::string bytes;  // as last seen
  };
  struct Range {
    int process;
    uint64_t begin;
    uint64_t end;
    NodeId node;
  };

  static FileCall AsFileCall(const Pending& pending);
  void EndCreate(int tid, Pending& pending, int64_t fd);
  void EndWrite(int tid, Pending& pending, uint64_t byte_count);
  void EndAllocate(Pending& pending);
  void NoteBytes(int fd, uint64_t offset, uint64_t size);
  void NoteMap(int tid, Pending& pending, uint64_t address);
  std::vector<NodeId> NodesAt(int tid, const TraceeCall& call) const;
  void ForgetMapped(int fd);

  ChangeRecorder recorder_;
  dev_t device_ = 0;
  std::map<NodeId, Mapped> mapped_;
  std::vector<Range> ranges_;
  TracedRun run_;
};

FileCall CallNotes::AsFileCall(const Pending& pending) {
  const TraceeCall& call = pending.call;
  FileCall file{.kind = call.kind};
  if (call.way == Way::kByPath) file.path = call.path.c_str();
  if (!call.to.empty()) file.to = call.to.c_str();
  file.fd = pending.fd.get();
  file.offset = call.offset;
  file.flags = call.flags;
  return file;
}

std::optional<CallNotes::Pending> CallNotes::Begin(int tid,
                                                   const TraceeCall& call) {
  Pending pending{call, UniqueFd(), {}, 0};
  bool meets = call.way == Way::kSyncAll;
  if (call.way == Way::kSyncMemory) {
    meets = !NodesAt(tid, call).empty();
  } else if (call.way != Way::kByPath && !meets) {
    pending.fd = OpenPath(TraceePath(tid, "fd/" + std::to_string(call.fd)));
    struct stat info;
    if (!pending.fd.valid() || ::fstat(pending.fd.get(), &info) != 0) {
      return std::nullopt;
    }
    meets = call.way == Way::kSyncFileSystem
                ? info.st_dev == device_
                : recorder_.NodeOf(info) != kNoNode;
  } else if (call.way == Way::kByPath && call.kind == FileCallKind::kResize) {
    pending.fd = OpenPath(call.path);
    meets = recorder_.NodeOfFd(pending.fd.get()) != kNoNode;
  } else if (call.way == Way::kByPath) {
    struct stat info;
    if (call.kind == FileCallKind::kCreate &&
        ::stat(call.path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode)) {
      return std::nullopt;  // it may wait for another process
    }
    pending.before = recorder_.Look(AsFileCall(pending));
    const auto& [from, to] = pending.before;
    meets =
        from.parent != kNoNode || from.node != kNoNode || to.parent != kNoNode;
  }
  if (!meets) return std::nullopt;
  NoteMapped();
  if (call.way == Way::kAllocate)
    pending.size_before = SizeOfFd(pending.fd.get());
  return pending;
}

void CallNotes::End(int tid, Pending& pending, int64_t result) {
  const TraceeCall& call = pending.call;
  switch (call.way) {
    case Way::kSyncAll:
    case Way::kSyncFileSystem:
      return recorder_.Add({.kind = Kind::kSync});
    case Way::kSyncMemory:
      for (const NodeId node : NodesAt(tid, call)) {
        recorder_.Add({.kind = Kind::kSync, .node = node});
      }
      return;
    case Way::kMap:
      return NoteMap(tid, pending, static_cast<uint64_t>(result));
    case Way::kAllocate:
      return EndAllocate(pending);
    case Way::kClone:
      recorder_.Add({.kind = Kind::kResize,
                     .node = recorder_.NodeOfFd(pending.fd.get()),
                     .offset = SizeOfFd(pending.fd.get())});
      return NoteBytes(pending.fd.get(), 0, SizeOfFd(pending.fd.get()));
    default:
      break;
  }
  if (call.kind == FileCallKind::kCreate)
    return EndCreate(tid, pending, result);
  if (call.kind == FileCallKind::kWrite) {
    return EndWrite(tid, pending, static_cast<uint64_t>(result));
  }
  recorder_.Note(AsFileCall(pending), pending.before, result);
  if (call.kind == FileCallKind::kResize) ForgetMapped(pending.fd.get());
}

void CallNotes::EndCreate(int tid, Pending& pending, int64_t fd) {
  const UniqueFd own = OpenPath(TraceePath(tid, "fd/" + std::to_string(fd)));
  struct stat info;
  if (!own.valid() || ::fstat(own.get(), &info) != 0) {
    return Miss("a file was closed while it was opened");
  }
  if ((pending.call.flags & O_TMPFILE) == O_TMPFILE) {
    recorder_.NewNode(info);  // linkat may name it
    return;
  }
  recorder_.Note(AsFileCall(pending), pending.before, own.get());
  ForgetMapped(own.get());
}

void CallNotes::EndWrite(int tid, Pending& pending, uint64_t byte_count) {
  if (byte_count == 0) return;
  const int fd = pending.fd.get();
  const FdInfo info = FdInfoOf(tid, pending.call.fd);
  uint64_t offset = static_cast<uint64_t>(pending.call.offset);
  if (info.flags & O_APPEND) {
    offset = SizeOfFd(fd) - byte_count;
  } else if (pending.call.offset < 0) {
    offset = info.position - byte_count;
  }
  NoteBytes(fd, offset, byte_count);
  if ((info.flags & O_DSYNC) || pending.call.is_synced) {
    recorder_.Add({.kind = Kind::kSync, .node = recorder_.NodeOfFd(fd)});
  }
}

void CallNotes::EndAllocate(Pending& pending) {
  const int fd = pending.fd.get();
  const uint64_t size = SizeOfFd(fd);
  if (size != pending.size_before) {
    recorder_.Add({.kind = Kind::kResize,
                   .node = recorder_.NodeOfFd(fd),
                   .offset = size});
  }
  const int mode = pending.call.flags & ~FALLOC_FL_KEEP_SIZE;
  const uint64_t begin = static_cast<uint64_t>(pending.call.offset);
  if (mode == 0 || begin >= size) return;
  const bool moves = mode & (FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE);
  NoteBytes(fd, begin,
            moves ? size - begin : std::min(pending.call.length, size - begin));
}

void CallNotes::NoteBytes(int fd, uint64_t offset, uint64_t size) {
  auto data = ReadBack(fd, offset, size);
  if (!data) return Miss("a file that was written cannot be read");
  recorder_.Add({.kind = Kind::kWrite,
                 .node = recorder_.NodeOfFd(fd),
                 .offset = offset,
                 .data = *std::move(data)});
  ForgetMapped(fd);
}

void CallNotes::NoteMap(int tid, Pending& pending, uint64_t address) {
  const NodeId node = recorder_.NodeOfFd(pending.fd.get());
  ranges_.push_back(
      {ProcessOf(tid), address, address + pending.call.length, node});
  if (mapped_.contains(node)) return;
  const int fd = pending.fd.get();
  auto bytes = ReadBack(fd, 0, SizeOfFd(fd));
  if (!bytes) return Miss("a file that is mapped cannot be read");
  mapped_[node] = {std::move(pending.fd), *std::move(bytes)};
}

// Returns the nodes that are mapped at the call's addresses. Falls back to
// other processes' mappings, because a child shares its parent's.
std::vector<NodeId> CallNotes::NodesAt(int tid, const TraceeCall& call) const {
  const int process = ProcessOf(tid);
  std::vector<NodeId> own, others;
  for (const Range& range : ranges_) {
    if (range.begin < call.address + call.length && call.address < range.end) {
      (range.process == process ? own : others).push_back(range.node);
    }
  }
  return own.empty() ? others : own;
}

// Updates the bytes last seen of a mapped file, so that a change by a call does
// not count as a change through memory.
void CallNotes::ForgetMapped(int fd) {
  const auto it = mapped_.find(recorder_.NodeOfFd(fd));
  if (it == mapped_.end()) return;
  if (auto bytes = ReadBack(it->second.fd.get(), 0, SizeOfFd(fd))) {
    it->second.bytes = *std::move(bytes);
  }
}

void CallNotes::NoteMapped() {
  for (auto& [node, mapped] : mapped_) {
    auto now = ReadBack(mapped.fd.get(), 0, SizeOfFd(mapped.fd.get()));
    if (!now || *now == mapped.bytes) continue;
    const std::string& old = mapped.bytes;
    for (uint64_t at = 0; at < now->size(); at += kPageBytes) {
      std::string page = now->substr(at, kPageBytes);
      if (at < old.size() && page == old.substr(at, kPageBytes)) continue;
      recorder_.Add({.kind = Kind::kWrite,
                     .node = node,
                     .offset = at,
                     .data = std::move(page)});
    }
    mapped.bytes = *std::move(now);
  }
}

TracedRun CallNotes::Take(const std::string& root) {
  NoteMapped();
  run_.record = recorder_.record();
  DiskState end = run_.record.start;
  for (const DiskChange& change : run_.record.changes) end.Apply(change);
  const Files want = ReadFiles(root);
  const Files got = end.List();
  for (const auto& files : {want, got}) {
    for (const auto& [path, unused] : files) {
      const auto a = want.find(path), b = got.find(path);
      const bool is_same = a != want.end() && b != got.end() &&
                           (a->second == nullptr) == (b->second == nullptr) &&
                           (a->second == nullptr || *a->second == *b->second);
      if (!is_same) Miss("no recorded call explains what is in " + path);
    }
  }
  return std::move(run_);
}

class Tracer {
 public:
  explicit Tracer(const std::string& root) : notes_(root) {}

  // Runs until the last descendant of `first` has ended.
  void Run(int first) {
    int status = 0;
    for (;;) {
      const int tid = ::waitpid(-1, &status, __WALL | __WNOTHREAD);
      if (tid < 0 && errno == EINTR) continue;
      if (tid < 0) return;
      if (WIFSTOPPED(status)) {
        OnStop(tid, status);
        continue;
      }
      if (tid == first) exit_status_ = status;
      Forget(tid);
    }
  }

  TracedRun Take(const std::string& root) {
    TracedRun run = notes_.Take(root);
    run.exit_code = WIFSIGNALED(exit_status_) ? 128 + WTERMSIG(exit_status_)
                                              : WEXITSTATUS(exit_status_);
    return run;
  }

 private:
  struct Busy {
    int tid;
    int process;
    CallNotes::Pending pending;
  };

  void Resume(int tid, int signal) {
    const bool is_busy = busy_ && busy_->tid == tid;
    ::ptrace(is_busy ? PTRACE_SYSCALL : PTRACE_CONT, tid, nullptr,
             reinterpret_cast<void*>(static_cast<intptr_t>(signal)));
  }

  void OnStop(int tid, int status) {
    const int event = status >> 16;
    const int signal = WSTOPSIG(status);
    if (event == PTRACE_EVENT_SECCOMP) return OnCall(tid);
    if (event == kStopEvent && signal != SIGTRAP) {
      ::ptrace(PTRACE_LISTEN, tid, nullptr, nullptr);
      return;
    }
    if (event == PTRACE_EVENT_EXEC) OnExec(tid);
    if (event != 0) return Resume(tid, 0);
    if (signal == (SIGTRAP | 0x80)) return OnReturn(tid);
    Resume(tid, signal);
  }

  // Forgets the process's other threads, which exec has ended.
  void OnExec(int process) {
    if (busy_ && busy_->process == process && busy_->tid != process) {
      Forget(busy_->tid);
    }
  }

  void Forget(int tid) {
    std::erase(waiting_, tid);
    if (!busy_ || busy_->tid != tid) return;
    busy_.reset();
    Next();
  }

  void OnCall(int tid) {
    SystemCall system;
    if (::ptrace(static_cast<__ptrace_request>(kGetSyscallInfo), tid,
                 sizeof system, &system) < 0) {
      return Resume(tid, 0);
    }
    const auto call = DecodeCall(tid, system);
    if (call && call->way == Way::kForeign) {
      notes_.Miss("a program for another processor took part");
    }
    if (!call || call->way == Way::kForeign) return Resume(tid, 0);
    if (busy_) {
      waiting_.push_back(tid);
      return;
    }
    if (call->kind == FileCallKind::kUnlink) MarkIfAsked(*call);
    auto pending = notes_.Begin(tid, *call);
    if (pending) busy_ = {tid, ProcessOf(tid), *std::move(pending)};
    Resume(tid, 0);
  }

  void MarkIfAsked(const TraceeCall& call) {
    const size_t slash = call.path.rfind('/');
    const std::string name = call.path.substr(slash + 1);
    if (!name.starts_with(kMarkPrefix)) return;
    notes_.NoteMapped();
    notes_.Mark(name.substr(sizeof kMarkPrefix - 1));
  }

  void OnReturn(int tid) {
    if (!busy_ || busy_->tid != tid) return Resume(tid, 0);
    SystemCall system;
    const bool is_known =
        ::ptrace(static_cast<__ptrace_request>(kGetSyscallInfo), tid,
                 sizeof system, &system) >= 0;
    if (is_known && !system.exit.is_error) {
      notes_.End(tid, busy_->pending, system.exit.value);
    }
    busy_.reset();
    Resume(tid, 0);
    Next();
  }

  void Next() {
    while (!busy_ && !waiting_.empty()) {
      const int tid = waiting_.front();
      waiting_.pop_front();
      OnCall(tid);
    }
  }

  CallNotes notes_;
  std::optional<Busy> busy_;
  std::deque<int> waiting_;
  int exit_status_ = 0;
};

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Runs the command in the child. Writes to `failed` why the command could not
// be started.
[[noreturn]] void BecomeCommand(int go, int failed, char** words,
                                char** variables) {
  char byte;
  int error = 0;
  if (::read(go, &byte, 1) != 1) ::_exit(127);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  if (InstallTraceFilter()) {
    ::execvpe(words[0], words, variables);
    error = errno;
  } else {
    error = -errno;
  }
  if (::write(failed, &error, sizeof error) < 0) ::_exit(126);
  ::_exit(127);
}

struct Ends {
  UniqueFd read, write;
};
Result<Ends> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "make", "pipe");
  return Ends{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Status CannotTrace(int error) {
  return UnimplementedError(
      "prove-crash: this system does not let a program trace its children "
      "(ptrace, seccomp; containers may want SYS_PTRACE): errno " +
      std::to_string(error));
}

}  // namespace

Result<TracedRun> TraceCommand(const std::vector<std::string>& command,
                               const std::string& root) {
  auto go = MakePipe(), failed = MakePipe();
  if (!go.ok()) return go.status();
  if (!failed.ok()) return failed.status();
  std::vector<std::string> words = command, variables;
  for (char** each = environ; *each != nullptr; ++each) {
    if (!std::string(*each).starts_with("HOLDFAST_PROVE_ROOT=")) {
      variables.push_back(*each);
    }
  }
  variables.push_back("HOLDFAST_PROVE_ROOT=" + root);
  std::vector<char*> word_pointers = Pointers(words);
  std::vector<char*> variable_pointers = Pointers(variables);
  Tracer tracer(root);
  const pid_t child = ::fork();
  if (child < 0) return ErrnoStatus(errno, "fork for", command[0]);
  if (child == 0) {
    go->write.Reset();
    BecomeCommand(go->read.get(), failed->write.get(), word_pointers.data(),
                  variable_pointers.data());
  }
  failed->write.Reset();
  const long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE |
                       PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                       PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD |
                       PTRACE_O_EXITKILL;
  if (::ptrace(PTRACE_SEIZE, child, nullptr,
               reinterpret_cast<void*>(options)) != 0) {
    const int error = errno;
    go->write.Reset();  // this ends the child
    ::waitpid(child, nullptr, 0);
    return CannotTrace(error);
  }
  if (::write(go->write.get(), "g", 1) < 0) ::kill(child, SIGKILL);
  tracer.Run(child);
  int error = 0;
  if (::read(failed->read.get(), &error, sizeof error) == sizeof error) {
    return error < 0 ? CannotTrace(-error)
                     : ErrnoStatus(error, "start", command[0]);
  }
  return tracer.Take(root);
}

}  // namespace holdfast

#else

namespace holdfast {

Result<TracedRun> TraceCommand(const std::vector<std::string>&,
                               const std::string&) {
  return UnimplementedError(
      "prove-crash: not on this system, want Linux on x86-64 or aarch64");
}

}  // namespace holdfast

#endif
