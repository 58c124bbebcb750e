#include "stores/cloud/gcs/gcs_settings.h"

#include "ground/base/status_macros.h"
#include "ground/base/utf8.h"
#include "stores/http/url.h"

namespace holdfast {
namespace {

constexpr size_t kGcsKeyBytesMax = 1024;

std::string WithoutTrailingSlashes(std::string url) {
  while (!url.empty() && url.back() == '/') url.pop_back();
  return url;
}

Result<std::string> CheckEndpoint(std::string text, const std::string& source) {
  if (text.find("://") == std::string::npos) text = "http://" + text;
  const auto url = ParseUrl(text);
  if (!url.ok()) return url.status().WithContext(source);
  if ((url->scheme != "http" && url->scheme != "https") || url->host.empty() ||
      !url->query.empty()) {
    return InvalidArgumentError(source + ": " + RedactUrl(text) +
                                " is not an http(s) address of a server");
  }
  return WithoutTrailingSlashes(std::move(text));
}

struct FoundEndpoint {
  std::string text;
  std::string source;
};

FoundEndpoint FindEndpoint(const RemoteOptions& options,
                           const Environment& environment) {
  if (!options.endpoint.empty()) return {options.endpoint, "option endpoint"};
  for (const char* name :
       {"STORAGE_EMULATOR_HOST", "TENSORSTORE_GCS_HTTP_URL"}) {
    const std::string value = environment(name);
    if (!value.empty()) return {value, name};
  }
  const std::string universe = environment("GOOGLE_CLOUD_UNIVERSE_DOMAIN");
  if (!universe.empty()) {
    return {"https://storage." + universe, "GOOGLE_CLOUD_UNIVERSE_DOMAIN"};
  }
  return {"https://storage.googleapis.com", "Google's"};
}

}  // namespace

Result<GcsSettings> ReadGcsSettings(const RemoteOptions& options,
                                    const Environment& environment) {
  GcsSettings settings;
  FoundEndpoint found = FindEndpoint(options, environment);
  HF_ASSIGN_OR_RETURN(settings.endpoint,
                      CheckEndpoint(std::move(found.text), found.source));
  settings.endpoint_source = found.source;
  settings.is_emulator = found.source == "STORAGE_EMULATOR_HOST";
  settings.user_project = options.user_project;
  if (settings.user_project.empty() && options.requester_pays) {
    settings.user_project = environment("GOOGLE_CLOUD_QUOTA_PROJECT");
  }
  if (settings.user_project.empty() && options.requester_pays) {
    settings.user_project = environment("GOOGLE_CLOUD_PROJECT");
  }
  return settings;
}

Status CheckGcsBucketName(std::string_view bucket) {
  bool ok = bucket.size() >= 3 && bucket.size() <= 222;
  for (const char c : bucket) {
    ok = ok && ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
                c == '_' || c == '.' || c == ':');
  }
  if (ok) return Status();
  return InvalidArgumentError(
      "gs://" + RedactUrl(bucket) +
      ": a bucket's name has 3 to 222 lower-case letters, digits, '-', '_' and "
      "'.'");
}

Status CheckGcsKey(std::string_view key) {
  if (key.empty() || key.size() > kGcsKeyBytesMax) {
    return InvalidArgumentError("an object's name has 1 to 1024 bytes (got " +
                                std::to_string(key.size()) + ")");
  }
  for (size_t at = 0; at < key.size();) {
    const size_t start = at;
    const char32_t c = DecodeUtf8(key, at);
    if (c == kBadCodePoint || c == '\n' || c == '\r' || c == '\0') {
      return InvalidArgumentError(
          "an object's name is UTF-8 without line ends and NUL (byte " +
          std::to_string(start) + " is not)");
    }
  }
  return Status();
}

bool IsSafeForSecrets(std::string_view text) {
  const auto url = ParseUrl(text);
  if (!url.ok()) return false;
  if (url->scheme == "https") return true;
  return url->scheme == "http" &&
         (url->host == "localhost" || url->host.starts_with("127.") ||
          url->host == "[::1]" || url->host == "::1");
}

}  // namespace holdfast
