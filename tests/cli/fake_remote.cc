#include "tests/cli/fake_remote.h"

namespace holdfast {

using testing::TheRemote;

Status SetRemoteSettings(const RemoteSettings& settings) {
  TheRemote().settings = settings;
  return Status();
}

Result<CopyResult> Copy(const std::string& source, const std::string& target,
                        const CopyOptions& options) {
  TheRemote().source = source;
  TheRemote().target = target;
  TheRemote().copy = options;
  if (!TheRemote().status.ok()) return TheRemote().status;
  return TheRemote().copied;
}

Result<Diagnosis> Diagnose(const std::string& url,
                           const DiagnoseOptions& options) {
  TheRemote().source = url;
  TheRemote().diagnose = options;
  if (!TheRemote().status.ok()) return TheRemote().status;
  return TheRemote().found;
}

std::string_view CheckOutcomeName(CheckOutcome outcome) {
  return outcome == CheckOutcome::kFailed ? "failed" : "fine";
}

bool Diagnosis::has_failed() const {
  for (const RemoteCheck& check : checks) {
    if (check.outcome == CheckOutcome::kFailed) return true;
  }
  return false;
}

}  // namespace holdfast

namespace holdfast::testing {

FakeRemote& TheRemote() {
  static FakeRemote remote;
  return remote;
}

}  // namespace holdfast::testing
