#include "stores/cloud/s3/aws_profile.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"

namespace holdfast {
namespace {

constexpr size_t kConfigBytesMax = 1 << 20;

// Returns the value before " #" or " ;".
std::string_view WithoutComment(std::string_view value) {
  for (size_t i = 1; i < value.size(); ++i) {
    const bool begins = value[i] == '#' || value[i] == ';';
    if (begins && (value[i - 1] == ' ' || value[i - 1] == '\t')) {
      return TrimSpaces(value.substr(0, i));
    }
  }
  return value;
}

bool IsComment(std::string_view trimmed) {
  return trimmed.empty() || trimmed[0] == '#' || trimmed[0] == ';';
}

// Turns "profile   x" into "profile x", and leaves "x" as it is.
std::string NormalSectionName(std::string_view name) {
  std::string normal;
  for (const char c : TrimSpaces(name)) {
    const bool is_space = c == ' ' || c == '\t';
    if (!is_space) {
      if (c != '"') normal += c;  // [profile "a b"]
    } else if (!normal.empty() && normal.back() != ' ') {
      normal += ' ';
    }
  }
  return normal;
}

Status IniError(const std::string& path, size_t line_number,
                std::string_view what) {
  return InvalidArgumentError(path + ": line " + std::to_string(line_number) +
                              ": " + std::string(what));
}

// Returns a file's content; "" if the file does not exist.
Result<std::string> ReadConfigFile(const std::string& path) {
  std::string text;
  const int error = ReadSmallFile(path, kConfigBytesMax, text);
  if (error == 0) return text;
  if (error == ENOENT || error == ENOTDIR) return std::string();
  if (error == EFBIG) return InvalidArgumentError(path + ": longer than 1 MiB");
  return PermissionDeniedError(path +
                               ": cannot be opened: " + std::strerror(error));
}

std::string ExpandHome(const std::string& path, const Environment& variables) {
  if (path != "~" && path.rfind("~/", 0) != 0) return path;
  return variables("HOME") + path.substr(1);
}

const std::string* FindValue(const IniFile& file, std::string_view section,
                             std::string_view key) {
  const auto at = file.find(section);
  if (at == file.end()) return nullptr;
  const auto value = at->second.find(key);
  return value == at->second.end() ? nullptr : &value->second;
}

std::string ConfigSection(std::string_view profile) {
  return profile == "default" ? "default" : "profile " + std::string(profile);
}

}  // namespace

bool IsTrueSetting(std::string_view text) {
  return text == "true" || text == "True" || text == "TRUE" || text == "1";
}

Result<IniFile> ParseIni(std::string_view text, const std::string& path) {
  IniFile file;
  IniSection* section = nullptr;
  std::string parent;  // the key with an empty value, for indented lines
  size_t line_number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line_number;
    const std::string_view trimmed = TrimSpaces(line);
    if (IsComment(trimmed)) continue;
    const bool is_indented = line[0] == ' ' || line[0] == '\t';
    if (trimmed[0] == '[' && !is_indented) {
      const size_t close = trimmed.find(']');
      if (close == std::string_view::npos) {
        return IniError(path, line_number, "a section without ']'");
      }
      section = &file[NormalSectionName(trimmed.substr(1, close - 1))];
      parent.clear();
      continue;
    }
    if (section == nullptr) {
      return IniError(path, line_number, "before the first [section]");
    }
    const size_t equals = trimmed.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      if (is_indented) continue;  // continues a long value
      return IniError(path, line_number, "not of the form key = value");
    }
    const std::string key = LowerCase(TrimSpaces(trimmed.substr(0, equals)));
    const std::string value(
        WithoutComment(TrimSpaces(trimmed.substr(equals + 1))));
    if (is_indented && !parent.empty()) {
      (*section)[parent + '.' + key] = value;
      continue;
    }
    parent = value.empty() ? key : "";
    (*section)[key] = value;
  }
  return file;
}

std::optional<AwsSetting> AwsConfig::Profile(std::string_view name,
                                             std::string_view key) const {
  const std::string who = "profile " + std::string(name) + " in ";
  if (const auto* value = FindValue(credentials, name, key);
      value != nullptr && !value->empty()) {
    return AwsSetting{*value, who + credentials_path};
  }
  if (const auto* value = FindValue(config, ConfigSection(name), key);
      value != nullptr && !value->empty()) {
    return AwsSetting{*value, who + config_path};
  }
  return std::nullopt;
}

bool AwsConfig::HasProfile(std::string_view name) const {
  return credentials.count(name) > 0 || config.count(ConfigSection(name)) > 0;
}

std::optional<AwsSetting> AwsConfig::Region() const {
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    std::string value = Variable(name);
    if (!value.empty()) return AwsSetting{std::move(value), name};
  }
  return Profile("region");
}

std::optional<AwsSetting> AwsConfig::Endpoint(std::string_view service) const {
  if (IsTrueSetting(Variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"))) return {};
  if (const auto ignore = Profile("ignore_configured_endpoint_urls");
      ignore && IsTrueSetting(ignore->value)) {
    return {};
  }
  std::string own = "AWS_ENDPOINT_URL_";
  for (const char c : service) {
    own += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  for (const std::string& name : {own, std::string("AWS_ENDPOINT_URL")}) {
    std::string value = Variable(name);
    if (!value.empty()) return AwsSetting{std::move(value), name};
  }
  if (const auto services = Profile("services")) {
    const std::string section = "services " + services->value;
    const auto* value =
        FindValue(config, section, std::string(service) + ".endpoint_url");
    if (value != nullptr && !value->empty()) {
      return AwsSetting{*value, section + " in " + config_path};
    }
  }
  return Profile("endpoint_url");
}

Result<AwsConfig> ReadAwsConfig(const std::string& profile,
                                const Environment& environment) {
  AwsConfig config;
  config.environment = environment;
  config.profile_is_explicit = !profile.empty();
  config.profile = profile;
  if (config.profile.empty()) config.profile = environment("AWS_PROFILE");
  if (config.profile.empty()) {
    config.profile = environment("AWS_DEFAULT_PROFILE");
  }
  const bool is_named = !config.profile.empty();
  if (!is_named) config.profile = "default";

  const auto path_of = [&](const char* variable, const char* usual) {
    const std::string named = environment(variable);
    return ExpandHome(named.empty() ? usual : named, environment);
  };
  config.config_path = path_of("AWS_CONFIG_FILE", "~/.aws/config");
  config.credentials_path =
      path_of("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials");
  HF_ASSIGN_OR_RETURN(const std::string config_text,
                      ReadConfigFile(config.config_path));
  HF_ASSIGN_OR_RETURN(config.config, ParseIni(config_text, config.config_path));
  HF_ASSIGN_OR_RETURN(const std::string credentials_text,
                      ReadConfigFile(config.credentials_path));
  HF_ASSIGN_OR_RETURN(config.credentials,
                      ParseIni(credentials_text, config.credentials_path));
  if (is_named && !config.HasProfile(config.profile)) {
    return InvalidArgumentError("profile " + config.profile +
                                " is neither in " + config.config_path +
                                " nor in " + config.credentials_path);
  }
  return config;
}

}  // namespace holdfast
