#include "stores/cloud/gcs/token_source.h"

#include <cerrno>
#include <chrono>
#include <filesystem>

#include "stores/cloud/gcs/gcs_json.h"

namespace holdfast {
namespace {

constexpr std::chrono::milliseconds kMetadataDeadline{3'000};

Result<TokenSource> SourceOfFile(const std::string& path,
                                 const std::string& where,
                                 const std::shared_ptr<HttpClient>& client,
                                 const UnixClock& clock) {
  std::string text;
  const int error = ReadSmallFile(path, kCredentialFileBytesMax, text);
  if (error != 0 && error != EFBIG) {
    return PermissionDeniedError(where +
                                 ": there is no file, or it cannot be read");
  }
  auto file = ParseCredentialFile(text);
  if (!file.ok()) return file.status().WithContext(where);
  const auto shared = std::make_shared<const CredentialFile>(*std::move(file));
  TokenSource source;
  source.where = where;
  source.kind = CredentialKindName(shared->kind);
  source.account = CleanServerText(shared->account, 200);
  source.project = shared->project;
  source.fetch = FetchFromFile(shared, client, clock);
  return source;
}

std::string GcloudFile(const Environment& environment) {
  std::string folder = environment("CLOUDSDK_CONFIG");
  if (folder.empty()) {
    const std::string home = environment("HOME");
    if (home.empty()) return "";
    folder = home + "/.config/gcloud";
  }
  return folder + "/application_default_credentials.json";
}

std::string MetadataBase(const Environment& environment) {
  for (const char* name :
       {"GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP"}) {
    const std::string host = environment(name);
    if (!host.empty()) return "http://" + host;
  }
  return "http://169.254.169.254";
}

Result<HttpResponse> AskMetadata(HttpClient& client, const std::string& base,
                                 const std::string& path) {
  HttpRequest request;
  request.url = base + "/computeMetadata/v1/" + path;
  request.headers = {{"Metadata-Flavor", "Google"}};
  request.body_bytes_max = 4096;
  request.deadline = kMetadataDeadline;
  return client.Send(request);
}

// Returns the metadata server's credentials. Nullopt if no metadata server
// answers, or if the one that answers is not Google's.
std::optional<TokenSource> SourceOfMachine(
    const Environment& environment, const std::shared_ptr<HttpClient>& client,
    const UnixClock& clock) {
  const std::string base = MetadataBase(environment);
  const auto answer =
      AskMetadata(*client, base, "instance/service-accounts/default/email");
  if (!answer.ok() ||
      FindHeader(answer->headers, "metadata-flavor") != "Google" ||
      answer->status != 200) {
    return std::nullopt;
  }
  TokenSource source;
  source.where = "metadata server " + base.substr(7);
  source.kind = "service account of this machine";
  source.account = CleanServerText(answer->body.view(), 200);
  const auto project = AskMetadata(*client, base, "project/project-id");
  if (project.ok() && project->status == 200) {
    source.project = CleanServerText(project->body.view(), 100);
  }
  source.fetch = FetchFromMetadataServer(base, client, clock);
  return source;
}

TokenSource AnonymousSource(std::string where) {
  TokenSource source;
  source.where = std::move(where);
  source.kind = "anonymous";
  source.fetch = [] { return Result<GcsToken>(GcsToken{}); };
  return source;
}

TokenSource TestSource(const std::string& token) {
  TokenSource source;
  source.where = "GOOGLE_AUTH_TOKEN_FOR_TESTING";
  source.kind = "token for testing";
  source.is_test_token = true;
  source.fetch = [token] { return Result<GcsToken>(GcsToken{token}); };
  return source;
}

}  // namespace

Result<TokenSource> FindTokenSource(const Environment& environment,
                                    bool anonymous, bool is_emulator,
                                    const std::shared_ptr<HttpClient>& client,
                                    const UnixClock& clock) {
  if (anonymous) return AnonymousSource("option anonymous");
  const std::string test_token = environment("GOOGLE_AUTH_TOKEN_FOR_TESTING");
  if (!test_token.empty()) return TestSource(test_token);
  if (is_emulator) return AnonymousSource("STORAGE_EMULATOR_HOST");
  const std::string path = environment("GOOGLE_APPLICATION_CREDENTIALS");
  if (!path.empty()) {
    return SourceOfFile(path, "GOOGLE_APPLICATION_CREDENTIALS (" + path + ")",
                        client, clock);
  }
  const std::string gcloud_path = GcloudFile(environment);
  std::error_code error;
  if (!gcloud_path.empty() && std::filesystem::exists(gcloud_path, error)) {
    return SourceOfFile(gcloud_path, "gcloud's login (" + gcloud_path + ")",
                        client, clock);
  }
  if (environment("NO_GCE_CHECK") != "true") {
    auto machine = SourceOfMachine(environment, client, clock);
    if (machine) return *std::move(machine);
  }
  return AnonymousSource(
      "none found: GOOGLE_APPLICATION_CREDENTIALS is not set, there is no " +
      (gcloud_path.empty() ? std::string("home folder") : gcloud_path) +
      ", no metadata server answers");
}

}  // namespace holdfast
