// Tracer: runs a command and writes down, in the order in which the system made
// them, all changes below a directory, of all its threads and children.
//
// It stops the processes at the system calls that change files (ptrace, behind
// a seccomp filter), so what makes them does not matter: libc, stdio, static
// programs. Calls that meet the directory are made one at a time.
// Thread-safety: one run at a time, on the calling thread; no other thread may
// wait for the children of this one meanwhile.
// Errors: Unimplemented (no such system, or ptrace is forbidden here), NotFound
// (no such command), Cancelled (ended by SIGINT).
#pragma once

#include <string>
#include <vector>

#include "holdfast/status.h"
#include "tools/powerloss/crash_states.h"

namespace holdfast {

struct TraceMark {
  size_t change_count = 0;  // that had been made by then
  std::string text;
};

struct TracedRun {
  DiskRecord record;
  std::vector<TraceMark> marks;
  int exit_code = 0;  // 128 + N: ended by signal N
  // Why the record may lack something; empty: it is what is there.
  std::string gap;
};

// `command` gets HOLDFAST_PROVE_ROOT=`root`, and its standard output goes to
// standard error. Returns when all processes that came of it have ended.
Result<TracedRun> TraceCommand(const std::vector<std::string>& command,
                               const std::string& root);

}  // namespace holdfast
