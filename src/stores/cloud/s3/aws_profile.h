// AwsConfig: the settings in Amazon's environment variables and shared files.
//
// Thread-safety: an AwsConfig is immutable after ReadAwsConfig. Units: none.
// Errors: InvalidArgument (a file that is not an INI file, with the line; a
// requested profile that does not exist), PermissionDenied (a file that cannot
// be opened). Values of the credentials file never appear in a message.
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

// Parses section headers, `key = value`, and comments (# and ; at the start of
// a line, or after a space). An indented line `sub = value` below a `key` with
// an empty value becomes `key.sub = value`. Later sections of the same name add
// to earlier ones. `path` is for messages.
Result<IniFile> ParseIni(std::string_view text, const std::string& path);

struct AwsSetting {
  std::string value;
  std::string source;  // "AWS_REGION", "profile default in ~/.aws/config"
};

class AwsConfig {
 public:
  // Returns the variable's value, or "".
  std::string Variable(const std::string& name) const {
    return environment(name);
  }
  // Returns a key's value in the chosen profile, or in the profile `name`: from
  // the credentials file if it is there, otherwise from the config file.
  // Nullopt if neither has it.
  std::optional<AwsSetting> Profile(std::string_view key) const {
    return Profile(profile, key);
  }
  std::optional<AwsSetting> Profile(std::string_view name,
                                    std::string_view key) const;
  bool HasProfile(std::string_view name) const;

  // Returns AWS_REGION, AWS_DEFAULT_REGION, or the profile's region.
  std::optional<AwsSetting> Region() const;
  // Returns AWS_ENDPOINT_URL_<SERVICE>, AWS_ENDPOINT_URL, the profile's
  // services section, or its endpoint_url. Nullopt if none of these is set, or
  // if AWS_IGNORE_CONFIGURED_ENDPOINT_URLS or the profile says to ignore them.
  std::optional<AwsSetting> Endpoint(std::string_view service) const;

  Environment environment;
  std::string profile;               // the chosen profile's name
  bool profile_is_explicit = false;  // chosen by option
  std::string config_path, credentials_path;
  IniFile config, credentials;
};

// Returns true for "true", "True", "TRUE" and "1", with which Amazon's tools
// set a flag.
bool IsTrueSetting(std::string_view text);

// Reads the environment and the shared files. If `profile` is "", uses the
// profile in AWS_PROFILE, or "default" without it. Missing files count as
// empty.
Result<AwsConfig> ReadAwsConfig(const std::string& profile,
                                const Environment& environment);

}  // namespace holdfast
