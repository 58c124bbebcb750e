// Verbs whose work is split over the processes that mpirun started. All make
// the same calls; only rank 0 prints, and all exit with the same code.
//
// Thread-safety: one verb at a time for an Env.
// Ownership: borrows both for the call.
#pragma once

#include <functional>

#include "cli/args.h"
#include "cli/env.h"
#include "holdfast/process_group.h"
#include "holdfast/status.h"

namespace holdfast::cli {

// The exit code, or a failure that is still to be printed. `group` is null when
// this process works by itself; whatever `env` prints elsewhere than on rank 0
// is lost.
using RankBody = std::function<Result<int>(ProcessGroup* group, Env& env)>;

int OnRanks(const Args& args, Env& env, const RankBody& body);

}  // namespace holdfast::cli
