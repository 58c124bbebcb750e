#include "cli/failures.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "cli/json_out.h"
#include "cli/units.h"

namespace holdfast::cli {

int ExitCodeOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return kExitFine;
    case StatusCode::kDataLoss:
      return kExitDamaged;
    case StatusCode::kInvalidArgument:
    case StatusCode::kOutOfRange:
      return kExitUsage;
    case StatusCode::kCancelled:
      return kExitInterrupted;
    default:
      return kExitFailure;
  }
}

int Fail(Env& env, const Status& status, std::string_view hint) {
  // Make the text first, because this may throw if memory is short.
  const std::string text = PrintableText(status.message());
  if (env.json_errors) {
    JsonWriter json(env.err);
    json.BeginObject();
    json.Field("error", status.message());
    json.Field("code", StatusCodeName(status.code()));
    json.Field("exit_code", ExitCodeOf(status));
    json.EndObject();
    env.err << '\n';
    return ExitCodeOf(status);
  }
  env.err << "holdfast: " << text << '\n';
  if (!hint.empty()) env.err << "hint: " << hint << '\n';
  return ExitCodeOf(status);
}

int FailUsage(Env& env, std::string_view message, std::string_view hint) {
  return Fail(env, InvalidArgumentError(std::string(message)), hint);
}

Status WriteTextFile(std::string_view flag, const std::string& path,
                     std::string_view text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return Status();
  const int error = errno;
  const std::string message = "--" + std::string(flag) + ": cannot write " +
                              path + ": " +
                              std::generic_category().message(error);
  if (error == ENOSPC || error == EDQUOT) {
    return ResourceExhaustedError(message);
  }
  if (error == ENOENT) return NotFoundError(message);
  return PermissionDeniedError(message);
}

int WorseExit(int a, int b) {
  if (a == kExitInterrupted || b == kExitInterrupted) return kExitInterrupted;
  if (a == kExitDamaged || b == kExitDamaged) return kExitDamaged;
  return std::max(a, b);
}

int FailIfUnreadable(Env& env, const LeafInfo& leaf) {
  const Status& problem = leaf.problem;
  if (problem.ok() || problem.code() == StatusCode::kFailedPrecondition) {
    return kExitFine;
  }
  return Fail(env, IsNotSupported(leaf) ? problem.WithContext("not supported")
                                        : problem);
}

int FailIfUnreadable(Env& env, const std::vector<LeafInfo>& leaves) {
  int code = kExitFine;
  for (const LeafInfo& leaf : leaves) {
    code = WorseExit(code, FailIfUnreadable(env, leaf));
  }
  return code;
}

}  // namespace holdfast::cli
