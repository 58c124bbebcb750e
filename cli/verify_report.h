// Prints the findings of verify as text and as JSON.
//
// Thread-safety: one thread at a time. Ownership: borrows its arguments.
#pragma once

#include <ostream>
#include <string_view>

#include "cli/args.h"
#include "cli/env.h"
#include "cli/json_out.h"
#include "holdfast/checkpoint.h"

namespace holdfast::cli {

// Prints the findings. `prefix` begins each line: "", or "7: " for a step.
void PrintVerifyReport(const VerifyReport& report, std::string_view prefix,
                       const Args& args, Env& env);
// Returns the exit code. Damage is worse than an unsupported leaf.
int VerifyExitCode(const VerifyReport& report);
// Writes the members of an open object.
void WriteVerifyFields(const VerifyReport& report, JsonWriter* json);

}  // namespace holdfast::cli
