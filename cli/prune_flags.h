// Stores the values of prune's options: each function has the contract of
// Flag::apply.
//
// Thread-safety: pure functions. Errors: InvalidArgument, with what is
// expected.
#pragma once

#include <string_view>

#include "cli/args.h"
#include "holdfast/status.h"

namespace holdfast::cli {

Status ApplyKeepLatest(std::string_view value, Args* args);
Status ApplyKeepEvery(std::string_view value, Args* args);
Status ApplyKeepInterval(std::string_view value, Args* args);
Status ApplyKeepSince(std::string_view value, Args* args);
Status ApplyKeepSteps(std::string_view value, Args* args);
Status ApplyKeepBest(std::string_view value, Args* args);

}  // namespace holdfast::cli
