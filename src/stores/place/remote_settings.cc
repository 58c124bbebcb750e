#include <mutex>

#include "holdfast/tools/remote.h"
#include "stores/cloud/remote_options.h"
#include "stores/http/http_client.h"
#include "stores/http/libcurl_file.h"
#include "stores/place/bucket_registry.h"

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

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

Status CheckNumber(const char* name, double value, double low, double high) {
  if (value >= low && value <= high) return Status();
  return InvalidArgumentError(
      std::string(name) + ": got " + std::to_string(value) + ", want " +
      std::to_string(low) + " to " + std::to_string(high));
}

Status CheckSettings(const RemoteSettings& settings) {
  constexpr double kSecondsMin = 0.001;
  constexpr double kSecondsMax = 7 * 86400;
  const Status checks[] = {
      CheckNumber("requests_in_flight_max", settings.requests_in_flight_max, 1,
                  1024),
      CheckNumber("attempt_count_max", settings.attempt_count_max, 1, 1000),
      CheckNumber("connect_seconds", settings.connect_seconds, kSecondsMin,
                  kSecondsMax),
      CheckNumber("stall_seconds", settings.stall_seconds, kSecondsMin,
                  kSecondsMax),
      CheckNumber("request_seconds", settings.request_seconds, kSecondsMin,
                  kSecondsMax),
  };
  for (const Status& status : checks) {
    if (!status.ok()) return status;
  }
  return Status();
}

RemoteOptions OptionsOf(const RemoteSettings& settings) {
  using AddressStyle = RemoteSettings::AddressStyle;
  RemoteOptions options;
  options.http.in_flight_max = settings.requests_in_flight_max;
  options.http.attempt_count_max = settings.attempt_count_max;
  options.http.connect_deadline = Milliseconds(settings.connect_seconds);
  options.http.stall_deadline = Milliseconds(settings.stall_seconds);
  options.http.request_deadline = Milliseconds(settings.request_seconds);
  options.http.hedge = settings.hedge;
  options.http.ca_bundle = settings.ca_bundle;
  options.endpoint = settings.endpoint;
  options.region = settings.region;
  options.profile = settings.profile;
  options.anonymous = settings.anonymous;
  switch (settings.address_style) {
    case AddressStyle::kAuto:
      break;
    case AddressStyle::kPath:
      options.style = RemoteOptions::Style::kPath;
      break;
    case AddressStyle::kVirtualHost:
      options.style = RemoteOptions::Style::kVirtualHost;
      break;
  }
  options.requester_pays = settings.requester_pays;
  options.user_project = settings.user_project;
  return options;
}

}  // namespace

Status SetRemoteSettings(const RemoteSettings& settings) {
  const Status checked = CheckSettings(settings);
  if (!checked.ok()) return checked.WithContext("remote settings");
  const std::lock_guard lock(TheSettings().mutex);
  TheSettings().current = settings;
  BucketRegistry::Default().SetOptions(OptionsOf(settings));
  return Status();
}

RemoteSettings GetRemoteSettings() {
  const std::lock_guard lock(TheSettings().mutex);
  return TheSettings().current;
}

void SetLibcurlPath(const std::string& path) { SetLibcurlFile(path); }

RemoteCounters GetRemoteCounters() { return TotalHttpCounters(); }

}  // namespace holdfast
