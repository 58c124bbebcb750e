#include "cli/ranks.h"

#include <memory>
#include <string>

#include "cli/failures.h"

namespace holdfast::cli {
namespace {

constexpr std::string_view kAloneHint =
    "with --mpi never each process does the whole work by itself";

bool WantsRanks(const Args& args, const Env& env) {
  if (!env.mpi_transport || args.mpi == When::kNever) return false;
  return args.mpi == When::kAlways || env.is_started_by_mpi;
}

}  // namespace

int OnRanks(const Args& args, Env& env, const RankBody& body) {
  if (!WantsRanks(args, env)) {
    const Result<int> code = body(nullptr, env);
    return code.ok() ? *code : Fail(env, code.status());
  }
  const auto transport = env.mpi_transport();
  if (!transport.ok()) return Fail(env, transport.status(), kAloneHint);
  const std::unique_ptr<ProcessGroup> group =
      MakeProcessGroup(*transport, {.timeout_seconds = args.timeout_seconds});
  if (group->rank() == 0) {
    const Result<int> code = body(group.get(), env);
    return code.ok() ? *code : Fail(env, code.status());
  }
  std::ostream nowhere(nullptr);
  Env silent{.out = nowhere, .err = nowhere};
  silent.cancel = env.cancel;
  const Result<int> code = body(group.get(), silent);
  if (code.ok()) return *code;
  // Rank 0 prints the failure. After a timeout every rank does, because rank 0
  // may be the one that is missing.
  const bool is_late = code.status().code() == StatusCode::kDeadlineExceeded;
  return Fail(is_late ? env : silent, code.status());
}

}  // namespace holdfast::cli
