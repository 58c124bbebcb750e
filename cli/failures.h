// Reports failures to the user: "holdfast: <message>", a hint, an exit code.
//
// Thread-safety: one thread at a time.
// Ownership: borrows the Env.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/env.h"
#include "holdfast/checkpoint.h"
#include "holdfast/status.h"

namespace holdfast::cli {

inline constexpr int kExitFine = 0;
inline constexpr int kExitDamaged = 1;  // or different
inline constexpr int kExitUsage = 2;
inline constexpr int kExitFailure = 3;
inline constexpr int kExitInterrupted = 130;  // 128 + SIGINT

// Returns the exit code for this kind of failure.
int ExitCodeOf(const Status& status);

// Prints the failure and returns its exit code. An empty hint is not printed.
int Fail(Env& env, const Status& status, std::string_view hint = "");
int FailUsage(Env& env, std::string_view message, std::string_view hint = "");

// Writes the file that the option `flag` names. Returns ResourceExhausted,
// NotFound (its directory is missing) or PermissionDenied if that fails.
Status WriteTextFile(std::string_view flag, const std::string& path,
                     std::string_view text);

// Returns the worse of two exit codes. Damage is worse than failure, because it
// answers the user's question.
int WorseExit(int a, int b);

// Reports a listed leaf that cannot be described because its files are damaged
// or missing, or because it is not supported, and returns the exit code. A leaf
// that the user's own TypeHandler reads is fine.
int FailIfUnreadable(Env& env, const LeafInfo& leaf);
int FailIfUnreadable(Env& env, const std::vector<LeafInfo>& leaves);

}  // namespace holdfast::cli
