// Stores the values of prove-crash's options: each function has the contract of
// Flag::apply.
//
// Thread-safety: pure functions. Errors: InvalidArgument, with what is
// expected.
#pragma once

#include <string_view>

#include "cli/args.h"
#include "holdfast/status.h"

namespace holdfast::cli {

Status ApplyRoot(std::string_view value, Args* args);
Status ApplyStates(std::string_view value, Args* args);
Status ApplySeed(std::string_view value, Args* args);
Status ApplyCheckCommand(std::string_view value, Args* args);
Status ApplyWithoutSync(std::string_view value, Args* args);
Status ApplyLibrary(std::string_view value, Args* args);
Status ApplyPython(std::string_view value, Args* args);

}  // namespace holdfast::cli
