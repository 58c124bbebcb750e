// Fetches tokens over HTTP.
#include <cerrno>
#include <chrono>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "ground/json/members.h"
#include "stores/cloud/gcs/gcs_json.h"
#include "stores/cloud/gcs/rs256.h"
#include "stores/cloud/gcs/token_source.h"
#include "stores/http/http_date.h"
#include "stores/http/url.h"

namespace holdfast {
namespace {

using std::chrono::milliseconds;

constexpr char kStorageScope[] =
    "https://www.googleapis.com/auth/devstorage.read_write";
constexpr char kPlatformScope[] =
    "https://www.googleapis.com/auth/cloud-platform";
constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr int64_t kClockSkewSecondsMax = 60;
constexpr milliseconds kTokenDeadline{30'000};

using Form = std::vector<std::pair<std::string_view, std::string>>;

std::string EncodeForm(const Form& form) {
  std::string text;
  for (const auto& [name, value] : form) {
    if (!text.empty()) text += '&';
    text += std::string(name) + "=" + EscapeComponent(value);
  }
  return text;
}

HttpRequest TokenPost(const std::string& url, std::string_view content_type,
                      const std::string& body) {
  HttpRequest request;
  request.method = "POST";
  request.url = url;
  request.headers = {{"Content-Type", std::string(content_type)}};
  request.body = {body};
  request.body_bytes_max = 1 << 20;
  request.deadline = kTokenDeadline;
  return request;
}

Status TokenRefused(const std::string& url, const HttpResponse& answer) {
  const GcsRefusal refusal = ParseGcsRefusal(answer.body.view());
  std::string message = "get an access token from " + RedactUrl(url) +
                        ": the server says " + std::to_string(answer.status);
  if (!refusal.reason.empty()) message += " " + refusal.reason;
  if (!refusal.message.empty()) message += ": " + refusal.message;
  if (refusal.reason == "invalid_grant") {
    message +=
        "; the key or login was revoked or has expired, or this machine's "
        "clock is wrong";
  }
  return answer.status >= 500 ? UnavailableError(std::move(message))
                              : PermissionDeniedError(std::move(message));
}

Result<HttpResponse> AskForToken(HttpClient& client,
                                 const HttpRequest& request) {
  HF_ASSIGN_OR_RETURN(HttpResponse answer, client.Send(request));
  if (answer.status != 200) return TokenRefused(request.url, answer);
  return answer;
}

Result<GcsToken> PostForm(HttpClient& client, const std::string& url,
                          const Form& form, HttpHeaders headers,
                          int64_t now_ns) {
  const std::string body = EncodeForm(form);
  HttpRequest request =
      TokenPost(url, "application/x-www-form-urlencoded", body);
  request.headers.insert(request.headers.end(), headers.begin(), headers.end());
  HF_ASSIGN_OR_RETURN(const HttpResponse answer, AskForToken(client, request));
  auto token = ParseTokenAnswer(answer.body.view(), now_ns);
  if (!token.ok()) {
    return token.status().WithContext("get an access token from " +
                                      RedactUrl(url));
  }
  return token;
}

Result<std::string> ReadSubjectFile(const std::string& path) {
  std::string text;
  const int error = ReadSmallFile(path, kCredentialFileBytesMax, text);
  if (error == 0) return text;
  if (error == EFBIG) {
    return InvalidArgumentError("read " + path + ": longer than 256 KiB");
  }
  return PermissionDeniedError("read " + path + ": it cannot be opened");
}

// One set of credentials, with everything needed to request tokens.
class FileFetcher {
 public:
  FileFetcher(std::shared_ptr<const CredentialFile> file,
              std::shared_ptr<HttpClient> client, UnixClock clock)
      : file_(std::move(file)),
        client_(std::move(client)),
        clock_(std::move(clock)) {}

  Result<GcsToken> Fetch(const char* scope) const {
    switch (file_->kind) {
      case CredentialFile::Kind::kServiceAccount:
        return ServiceAccountToken(scope);
      case CredentialFile::Kind::kAuthorizedUser:
        return UserToken();
      case CredentialFile::Kind::kExternalAccount:
        return ExternalToken();
      case CredentialFile::Kind::kImpersonated:
        return ImpersonatedToken();
    }
    return InternalError("unknown kind of credentials");
  }

 private:
  Result<HttpResponse> SendAssertion(const char* scope, int64_t now_s) const {
    const JwtClaims claims = {file_->account,        scope, file_->token_url,
                              file_->private_key_id, now_s, now_s + 3600};
    HF_ASSIGN_OR_RETURN(const std::string assertion,
                        MakeSignedJwt(claims, file_->private_key));
    const std::string body = EncodeForm(
        {{"grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"},
         {"assertion", assertion}});
    return client_->Send(
        TokenPost(file_->token_url, "application/x-www-form-urlencoded", body));
  }

  // Returns the server's time from its Date header, if it differs much from
  // this machine's time.
  static std::optional<int64_t> OtherClock(const HttpResponse& answer,
                                           int64_t now_s) {
    const auto server_s =
        ParseHttpDate(FindHeader(answer.headers, "date").value_or(""));
    if (!server_s || std::abs(*server_s - now_s) <= kClockSkewSecondsMax) {
      return std::nullopt;
    }
    return server_s;
  }

  Result<GcsToken> ServiceAccountToken(const char* scope) const {
    const int64_t now_ns = clock_();
    const int64_t now_s = now_ns / kNsPerSecond;
    HF_ASSIGN_OR_RETURN(HttpResponse answer, SendAssertion(scope, now_s));
    // The assertion may have been refused because this machine's clock is
    // wrong, so it is sent once more with the server's time.
    if (answer.status == 400 || answer.status == 401) {
      const auto server_s = OtherClock(answer, now_s);
      if (server_s) {
        HF_ASSIGN_OR_RETURN(answer, SendAssertion(scope, *server_s));
      }
    }
    if (answer.status != 200) {
      return TokenRefused(file_->token_url, answer)
          .WithContext("service account " + file_->account);
    }
    return ParseTokenAnswer(answer.body.view(), now_ns);
  }

  Result<GcsToken> UserToken() const {
    return PostForm(*client_, file_->token_url,
                    {{"grant_type", "refresh_token"},
                     {"client_id", file_->client_id},
                     {"client_secret", file_->client_secret},
                     {"refresh_token", file_->refresh_token}},
                    {}, clock_());
  }

  Result<std::string> SubjectText() const {
    const SubjectTokenSource& subject = file_->subject;
    if (!subject.file.empty()) return ReadSubjectFile(subject.file);
    HttpRequest request;
    request.url = subject.url;
    for (const auto& header : subject.url_headers) {
      request.headers.emplace_back(header);
    }
    request.body_bytes_max = kCredentialFileBytesMax;
    request.deadline = kTokenDeadline;
    HF_ASSIGN_OR_RETURN(const HttpResponse answer, client_->Send(request));
    if (answer.status != 200) return TokenRefused(subject.url, answer);
    return answer.body.ToString();
  }

  Result<GcsToken> ExternalToken() const {
    HF_ASSIGN_OR_RETURN(const std::string text, SubjectText());
    auto subject = ParseSubjectToken(text, file_->subject.json_field);
    if (!subject.ok()) {
      return subject.status().WithContext("the subject token");
    }
    Form form = {
        {"grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"},
        {"audience", file_->audience},
        {"scope", kPlatformScope},
        {"requested_token_type",
         "urn:ietf:params:oauth:token-type:access_token"},
        {"subject_token_type", file_->subject_token_type},
        {"subject_token", *std::move(subject)}};
    HttpHeaders headers;
    if (!file_->client_id.empty()) {
      headers.emplace_back(
          "Authorization",
          "Basic " + Base64(file_->client_id + ":" + file_->client_secret));
    } else if (!file_->workforce_user_project.empty()) {
      form.emplace_back("options",
                        JsonLine(nlohmann::json{
                            {"userProject", file_->workforce_user_project}}));
    }
    HF_ASSIGN_OR_RETURN(GcsToken token,
                        PostForm(*client_, file_->token_url, form,
                                 std::move(headers), clock_()));
    if (file_->impersonation_url.empty()) return token;
    return Impersonate(token.text);
  }

  Result<GcsToken> ImpersonatedToken() const {
    const FileFetcher source(file_->source, client_, clock_);
    auto token = source.Fetch(kPlatformScope);
    if (!token.ok()) return token.status().WithContext("source_credentials");
    return Impersonate(token->text);
  }

  Result<GcsToken> Impersonate(const std::string& token) const {
    nlohmann::json json = {{"scope", {kStorageScope}}, {"lifetime", "3600s"}};
    if (!file_->delegates.empty()) json["delegates"] = file_->delegates;
    const std::string body = JsonLine(json);
    HttpRequest request =
        TokenPost(file_->impersonation_url, "application/json", body);
    request.headers.emplace_back("Authorization", "Bearer " + token);
    HF_ASSIGN_OR_RETURN(const HttpResponse answer,
                        AskForToken(*client_, request));
    return ParseImpersonationAnswer(answer.body.view());
  }

  const std::shared_ptr<const CredentialFile> file_;
  const std::shared_ptr<HttpClient> client_;
  const UnixClock clock_;
};

}  // namespace

TokenFetch FetchFromFile(std::shared_ptr<const CredentialFile> file,
                         std::shared_ptr<HttpClient> client, UnixClock clock) {
  return [fetcher = FileFetcher(std::move(file), std::move(client),
                                std::move(clock))] {
    return fetcher.Fetch(kStorageScope);
  };
}

TokenFetch FetchFromMetadataServer(std::string base,
                                   std::shared_ptr<HttpClient> client,
                                   UnixClock clock) {
  return [base = std::move(base), client = std::move(client),
          clock = std::move(clock)]() -> Result<GcsToken> {
    HttpRequest request;
    request.url =
        base + "/computeMetadata/v1/instance/service-accounts/default/token";
    request.headers = {{"Metadata-Flavor", "Google"}};
    request.body_bytes_max = 1 << 20;
    request.deadline = kTokenDeadline;
    const int64_t now_ns = clock();
    HF_ASSIGN_OR_RETURN(const HttpResponse answer,
                        AskForToken(*client, request));
    return ParseTokenAnswer(answer.body.view(), now_ns);
  };
}

}  // namespace holdfast
