#include <mutex>

#include "cloud/remote_options.h"
#include "holdfast/remote.h"

namespace holdfast {
namespace {

struct Settings {
  std::mutex mutex;
  RemoteSettings current;
};

Settings& TheSettings() {
  static Settings settings;
  return settings;
}

}  // namespace

Status SetRemoteSettings(const RemoteSettings& settings) {
  std::lock_guard lock(TheSettings().mutex);
  TheSettings().current = settings;
  return Status();
}

RemoteSettings GetRemoteSettings() {
  std::lock_guard lock(TheSettings().mutex);
  return TheSettings().current;
}

Status SetLibcurlPath(const std::string& path) {
  return UnimplementedError("libcurl " + path + ": not yet");
}

RemoteCounters GetRemoteCounters() { return {}; }

Result<CopyResult> Copy(const std::string& source, const std::string& target,
                        const CopyOptions&) {
  return UnimplementedError("copy " + source + " to " + target);
}

std::string_view CheckOutcomeName(CheckOutcome outcome) {
  switch (outcome) {
    case CheckOutcome::kFine:
      return "fine";
    case CheckOutcome::kWarning:
      return "warning";
    case CheckOutcome::kFailed:
      return "failed";
    case CheckOutcome::kSkipped:
      return "skipped";
  }
  return "";
}

bool Diagnosis::has_failed() const { return false; }

Result<Diagnosis> Diagnose(const std::string& url, const DiagnoseOptions&) {
  return UnimplementedError("diagnose " + url);
}

}  // namespace holdfast
