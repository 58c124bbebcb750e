// Tracer: runs a command and records all changes that its threads and children
// make below a directory, in the order in which the system made them.
//
// It stops the processes at the system calls that change files (ptrace, after a
// seccomp filter). So it also sees the calls of stdio and of statically linked
// programs. Calls that touch the directory are made one at a time.
// Thread-safety: one run at a time, on the calling thread; in the meantime, no
// other thread may wait for children of this process.
// Errors: Unimplemented (unsupported system, or ptrace is forbidden here),
// NotFound (no such command), Cancelled (ended by SIGINT).
#pragma once

#include <string>
#include <vector>

#include "holdfast/status.h"
#include "tools/powerloss/crash_states.h"

namespace holdfast {

struct TraceMark {
  size_t change_count = 0;  // changes that had been made by then
  std::string text;
};

struct TracedRun {
  DiskRecord record;
  std::vector<TraceMark> marks;
  int exit_code = 0;  // 128 + N if signal N ended it
  // Why the record may be incomplete; empty if it is complete.
  std::string gap;
};

// Runs `command` with HOLDFAST_PROVE_ROOT=`root`; its standard output goes to
// standard error. Returns when all its descendants have ended.
Result<TracedRun> TraceCommand(const std::vector<std::string>& command,
                               const std::string& root);

}  // namespace holdfast
