#include "stores/cloud/hub/hub_settings.h"

#include <algorithm>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "stores/http/url.h"

namespace holdfast {
namespace {

constexpr size_t kTokenBytesMax = 4096;

std::string FirstOf(const Environment& environment,
                    std::initializer_list<const char*> names) {
  for (const char* name : names) {
    std::string value = environment(name);
    if (!value.empty()) return value;
  }
  return "";
}

std::string WithHome(std::string path, const Environment& environment) {
  if (path != "~" && !path.starts_with("~/")) return path;
  return environment("HOME") + path.substr(1);
}

// Returns the hub's directory for its own files; "" if there is no home
// directory.
std::string HubHome(const Environment& environment) {
  const std::string home = environment("HF_HOME");
  if (!home.empty()) return WithHome(home, environment);
  std::string cache = environment("XDG_CACHE_HOME");
  if (cache.empty()) cache = "~/.cache";
  if (cache.starts_with('~') && environment("HOME").empty()) return "";
  return WithHome(cache, environment) + "/huggingface";
}

void FindToken(const Environment& environment, HubSettings& settings) {
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    settings.token = TrimSpaces(environment(name));
    settings.token_source = name;
    if (!settings.token.empty()) return;
  }
  std::string file = WithHome(environment("HF_TOKEN_PATH"), environment);
  const std::string home = HubHome(environment);
  if (file.empty() && !home.empty()) file = home + "/token";
  std::string text;
  const bool is_read =
      !file.empty() && ReadSmallFile(file, kTokenBytesMax, text) == 0;
  if (is_read) settings.token = TrimSpaces(text.substr(0, text.find('\n')));
  settings.token_source = settings.token.empty() ? "none" : file;
}

}  // namespace

HttpHeaders HubSettings::headers() const {
  if (token.empty()) return {};
  return {{"Authorization", "Bearer " + token}};
}

Result<HubSettings> ReadHubSettings(const RemoteOptions& options,
                                    const Environment& environment) {
  HubSettings settings;
  settings.endpoint = environment("HF_ENDPOINT");
  if (settings.endpoint.empty()) settings.endpoint = "https://huggingface.co";
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  const Result<Url> url = ParseUrl(settings.endpoint);
  if (!url.ok()) return url.status().WithContext("HF_ENDPOINT");
  if ((url->scheme != "http" && url->scheme != "https") ||
      !url->query.empty()) {
    return InvalidArgumentError("HF_ENDPOINT: " + RedactUrl(settings.endpoint) +
                                " is not an http(s) address of a server");
  }
  settings.token_source = "none";
  if (!options.anonymous) FindToken(environment, settings);
  const bool is_token =
      std::all_of(settings.token.begin(), settings.token.end(),
                  [](char c) { return c > 0x20 && c < 0x7f; });
  if (is_token) return settings;
  return FailedPreconditionError("the token of " + settings.token_source +
                                 " has characters that a token cannot have");
}

bool IsHubOffline(const Environment& environment) {
  const std::string value = LowerCase(
      FirstOf(environment, {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}));
  return value == "1" || value == "on" || value == "yes" || value == "true";
}

std::string HubCacheDirectory(const Environment& environment) {
  const std::string cache =
      FirstOf(environment, {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"});
  if (!cache.empty()) return WithHome(cache, environment);
  const std::string home = HubHome(environment);
  return home.empty() ? "" : home + "/hub";
}

}  // namespace holdfast
