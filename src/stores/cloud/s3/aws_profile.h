// AwsConfig: what Amazon's environment variables and shared files say.
//
// Thread-safety: an AwsConfig is immutable after ReadAwsConfig. Units: none.
// Errors: InvalidArgument (a file that is no INI file, with its line; a
// profile that is asked for and does not exist), PermissionDenied. Values of
// the credentials file never appear in a message.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "stores/cloud/environment.h"

namespace holdfast {

using IniSection = std::map<std::string, std::string, std::less<>>;
using IniFile = std::map<std::string, IniSection, std::less<>>;

// Section headers, `key = value`, comments (# and ; at the start of a line, or
// after a space). Indented lines below an empty value make `key.sub = value`.
// Later sections of one name add to earlier ones. `path` is for messages.
Result<IniFile> ParseIni(std::string_view text, const std::string& path);

struct AwsSetting {
  std::string value;
  std::string source;  // "AWS_REGION", "profile default in ~/.aws/config"
};

class AwsConfig {
 public:
  // The variable, or "".
  std::string Variable(const std::string& name) const {
    return environment(name);
  }
  // A key of the chosen profile, or of a named one: of the credentials file,
  // else of the config file. Absent when in neither.
  std::optional<AwsSetting> Profile(std::string_view key) const {
    return Profile(profile, key);
  }
  std::optional<AwsSetting> Profile(std::string_view name,
                                    std::string_view key) const;
  bool HasProfile(std::string_view name) const;

  // AWS_REGION, AWS_DEFAULT_REGION, the profile's.
  std::optional<AwsSetting> Region() const;
  // AWS_ENDPOINT_URL_<SERVICE>, AWS_ENDPOINT_URL, the profile's services
  // section, its endpoint_url; absent when none, or when
  // AWS_IGNORE_CONFIGURED_ENDPOINT_URLS or the profile says to ignore them.
  std::optional<AwsSetting> Endpoint(std::string_view service) const;

  Environment environment;
  std::string profile;               // its name
  bool profile_is_explicit = false;  // by option
  std::string config_path, credentials_path;
  IniFile config, credentials;
};

// "true" and "1", as Amazon's tools read a flag.
bool IsTrueSetting(std::string_view text);

// `profile`: "" for AWS_PROFILE, else "default". Files that do not exist are
// empty ones.
Result<AwsConfig> ReadAwsConfig(const std::string& profile,
                                const Environment& environment);

}  // namespace holdfast
