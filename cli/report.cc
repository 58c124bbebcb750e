#include "cli/report.h"

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
  env.err << "holdfast: " << PrintableText(status.message()) << '\n';
  if (!hint.empty()) env.err << "hint: " << hint << '\n';
  return ExitCodeOf(status);
}

int FailUsage(Env& env, std::string_view message, std::string_view hint) {
  return Fail(env, InvalidArgumentError(std::string(message)), hint);
}

}  // namespace holdfast::cli
