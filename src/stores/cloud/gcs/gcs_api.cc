#include "stores/cloud/gcs/gcs_api.h"

#include "ground/base/status_macros.h"
#include "stores/cloud/gcs/gcs_error.h"
#include "stores/http/url.h"

namespace holdfast {
namespace {

// Returns `body` with the token hidden: a server may repeat the token in its
// answer, but messages must not.
std::string Without(std::string_view body, std::string_view token) {
  std::string text(body);
  if (token.starts_with("Bearer ")) token.remove_prefix(7);
  if (token.empty()) return text;
  for (size_t at = 0; (at = text.find(token, at)) != std::string::npos;) {
    text.replace(at, token.size(), "(hidden)");
    at += 8;
  }
  return text;
}

}  // namespace

GcsApi::GcsApi(std::string bucket, GcsSettings settings, bool requester_pays,
               std::shared_ptr<HttpClient> client,
               std::shared_ptr<GcsCredentials> credentials)
    : bucket_(std::move(bucket)),
      settings_(std::move(settings)),
      requester_pays_(requester_pays),
      client_(std::move(client)),
      credentials_(std::move(credentials)) {}

std::string GcsApi::UrlOf(std::string_view key) const {
  return "gs://" + bucket_ + "/" + std::string(key);
}

Status GcsApi::Begin() {
  {
    const std::lock_guard lock(mutex_);
    if (has_project_) return Status();
  }
  std::string project = settings_.user_project;
  // The credentials' project is looked up only when it is needed, since the
  // lookup may take a request to a metadata server.
  if (project.empty() && requester_pays_) {
    HF_ASSIGN_OR_RETURN(const GcsIdentity identity, credentials_->Identity());
    project = identity.project;
    if (project.empty()) {
      return InvalidArgumentError(
          UrlOf("") +
          ": requester pays, but no project is named: give the user project, "
          "or set GOOGLE_CLOUD_QUOTA_PROJECT");
    }
  }
  const std::lock_guard lock(mutex_);
  project_ = std::move(project);
  has_project_ = true;
  return Status();
}

std::string GcsApi::BucketPath() const {
  return "/storage/v1/b/" + EscapeComponent(bucket_);
}

std::string GcsApi::ObjectsPath() const { return BucketPath() + "/o"; }

std::string GcsApi::ObjectPath(std::string_view key) const {
  return ObjectsPath() + "/" + EscapeComponent(key);
}

std::string GcsApi::PathWith(const std::string& path,
                             const GcsParameters& parameters) const {
  std::string text = path;
  char mark = '?';
  const auto add = [&](std::string_view name, std::string_view value) {
    text += mark;
    text += std::string(name) + "=" + EscapeComponent(value);
    mark = '&';
  };
  for (const auto& [name, value] : parameters) add(name, value);
  const std::lock_guard lock(mutex_);
  if (!project_.empty()) add("userProject", project_);
  return text;
}

std::string GcsApi::Url(const std::string& path,
                        const GcsParameters& parameters) const {
  return settings_.endpoint + PathWith(path, parameters);
}

bool GcsApi::IsOurServer(std::string_view url) const {
  return url.starts_with(settings_.endpoint) &&
         url.substr(settings_.endpoint.size()).starts_with('/');
}

// Makes the request add the current token before each attempt. An upload's
// address may be on a different server, which must not get the token. The
// client may destroy a request late, on its own thread, so the closure owns
// nothing.
void GcsApi::Authorize(HttpRequest& request) const {
  const bool with_token = IsOurServer(request.url);
  request.prepare = [with_token,
                     credentials = credentials_.get()](HttpRequest& attempt) {
    const std::string value = with_token ? credentials->Current() : "";
    if (!value.empty()) attempt.headers.emplace_back("Authorization", value);
    return Status();
  };
}

HttpRequest GcsApi::Request(std::string_view method, std::string url,
                            uint64_t answer_bytes_max) {
  HttpRequest request;
  request.method = method;
  request.url = std::move(url);
  request.body_bytes_max = answer_bytes_max;
  return request;
}

Result<HttpResponse> GcsApi::Send(HttpRequest request,
                                  const GcsAction& action) {
  auto answer = std::move(SendAll({&request, 1}).front());
  if (!answer.ok()) return Context(action, answer.status());
  return answer;
}

std::vector<Result<HttpResponse>> GcsApi::SendAll(
    std::span<HttpRequest> requests) {
  const auto token = credentials_->Get();
  if (!token.ok()) {
    return std::vector<Result<HttpResponse>>(requests.size(), token.status());
  }
  for (HttpRequest& request : requests) Authorize(request);
  auto answers = client_->SendAll(requests);
  for (size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].ok()) clock_.Note(answers[i]->headers);
    // With a 401, the token may have been revoked before it expired. It is
    // renewed once.
    if (!answers[i].ok() || answers[i]->status != 401 || token->empty()) {
      continue;
    }
    const auto renewed = credentials_->Renew(*token);
    if (!renewed.ok()) {
      answers[i] = renewed.status();
    } else if (*renewed != *token) {
      answers[i] = client_->Send(requests[i]);
    }
  }
  return answers;
}

Status GcsApi::Error(const GcsAction& action,
                     const HttpResponse& answer) const {
  return Error(action, answer.status, answer.body.view());
}

Status GcsApi::Error(const GcsAction& action, int status,
                     std::string_view body) const {
  const std::string url = UrlOf(action.key);
  const std::string identity = credentials_->IdentityText();
  return GcsError({action.verb, url, action.permission, identity}, status,
                  Without(body, credentials_->Current()));
}

Status GcsApi::Context(const GcsAction& action, const Status& status) const {
  return status.WithContext(std::string(action.verb) + " " + UrlOf(action.key));
}

}  // namespace holdfast
