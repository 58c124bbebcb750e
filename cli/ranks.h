// Runs verbs whose work is split over the processes that mpirun started. All
// processes make the same calls and exit with the same code; only rank 0
// prints.
//
// Thread-safety: one verb at a time per Env.
// Ownership: borrows both for the call.
#pragma once

#include <functional>

#include "cli/args.h"
#include "cli/env.h"
#include "holdfast/process_group.h"
#include "holdfast/status.h"

namespace holdfast::cli {

// A verb's work on one rank. Returns the exit code, or a failure that OnRanks
// prints. `group` is null if this process works by itself. Output to `env` is
// discarded on all ranks except 0.
using RankBody = std::function<Result<int>(ProcessGroup* group, Env& env)>;

int OnRanks(const Args& args, Env& env, const RankBody& body);

}  // namespace holdfast::cli
