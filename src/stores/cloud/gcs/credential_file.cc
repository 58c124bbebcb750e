#include "stores/cloud/gcs/credential_file.h"

#include "ground/base/status_macros.h"
#include "ground/json/members.h"
#include "stores/cloud/gcs/gcs_json.h"
#include "stores/cloud/gcs/gcs_settings.h"

namespace holdfast {
namespace {

using FileJson = nlohmann::json;

constexpr char kGoogleTokenUrl[] = "https://oauth2.googleapis.com/token";
constexpr int kImpersonationDepthMax = 4;

Status NeedText(const FileJson& json, const char* name, std::string& text) {
  text = StringMember(json, name);
  if (!text.empty()) return Status();
  return InvalidArgumentError(std::string("the member ") + name +
                              " is missing or no text");
}

Status NeedSafeUrl(const FileJson& json, const char* name, std::string& url) {
  HF_RETURN_IF_ERROR(NeedText(json, name, url));
  if (IsSafeForSecrets(url)) return Status();
  return InvalidArgumentError(std::string(name) +
                              " is not an https address: no secret is sent "
                              "there");
}

Status ReadTokenUri(const FileJson& json, CredentialFile& file) {
  file.token_url = kGoogleTokenUrl;
  if (!json.contains("token_uri")) return Status();
  return NeedSafeUrl(json, "token_uri", file.token_url);
}

Status ReadServiceAccount(const FileJson& json, CredentialFile& file) {
  file.kind = CredentialFile::Kind::kServiceAccount;
  HF_RETURN_IF_ERROR(NeedText(json, "client_email", file.account));
  HF_RETURN_IF_ERROR(NeedText(json, "private_key", file.private_key));
  file.private_key_id = StringMember(json, "private_key_id");
  return ReadTokenUri(json, file);
}

Status ReadAuthorizedUser(const FileJson& json, CredentialFile& file) {
  file.kind = CredentialFile::Kind::kAuthorizedUser;
  file.account = StringMember(json, "account");
  HF_RETURN_IF_ERROR(NeedText(json, "client_id", file.client_id));
  HF_RETURN_IF_ERROR(NeedText(json, "client_secret", file.client_secret));
  HF_RETURN_IF_ERROR(NeedText(json, "refresh_token", file.refresh_token));
  return ReadTokenUri(json, file);
}

Status ReadSubjectFormat(const FileJson& source, SubjectTokenSource& subject) {
  const auto format = source.find("format");
  if (format == source.end()) return Status();
  if (!format->is_object()) {
    return InvalidArgumentError("credential_source.format is not an object");
  }
  if (StringMember(*format, "type") != "json") return Status();
  return NeedText(*format, "subject_token_field_name", subject.json_field);
}

Status ReadSubjectSource(const FileJson& json, SubjectTokenSource& subject) {
  const auto source = json.find("credential_source");
  if (source == json.end() || !source->is_object()) {
    return InvalidArgumentError("the member credential_source is missing");
  }
  if (source->contains("environment_id")) {
    return UnimplementedError(
        "federation from AWS (credential_source.environment_id) is not "
        "supported: use a subject token in a file or behind a URL");
  }
  if (source->contains("executable")) {
    return UnimplementedError(
        "credential_source.executable is not supported: holdfast runs no "
        "programs for credentials");
  }
  if (source->contains("certificate")) {
    return UnimplementedError("credential_source.certificate is not supported");
  }
  subject.file = StringMember(*source, "file");
  subject.url = StringMember(*source, "url");
  // Exactly one of the two must be given: with both, it is unclear which token
  // is meant.
  if (subject.file.empty() == subject.url.empty()) {
    return InvalidArgumentError(
        subject.file.empty() ? "credential_source has neither file nor url"
                             : "credential_source has both a file and a url; "
                               "want one of them");
  }
  const auto headers = source->find("headers");
  if (headers != source->end() && headers->is_object()) {
    for (const auto& [name, value] : headers->items()) {
      if (value.is_string()) {
        subject.url_headers[name] = value.get<std::string>();
      }
    }
  }
  return ReadSubjectFormat(*source, subject);
}

// Extracts the account from ".../serviceAccounts/<e-mail>:generateAccessToken".
std::string AccountOfImpersonationUrl(const std::string& url) {
  constexpr std::string_view kBefore = "/serviceAccounts/";
  const size_t at = url.rfind(kBefore);
  const size_t end = url.rfind(':');
  if (at == std::string::npos || end == std::string::npos || end < at)
    return "";
  return CleanServerText(
      url.substr(at + kBefore.size(), end - at - kBefore.size()), 200);
}

Status ReadExternalAccount(const FileJson& json, CredentialFile& file) {
  file.kind = CredentialFile::Kind::kExternalAccount;
  HF_RETURN_IF_ERROR(NeedText(json, "audience", file.audience));
  HF_RETURN_IF_ERROR(
      NeedText(json, "subject_token_type", file.subject_token_type));
  HF_RETURN_IF_ERROR(NeedSafeUrl(json, "token_url", file.token_url));
  HF_RETURN_IF_ERROR(ReadSubjectSource(json, file.subject));
  file.client_id = StringMember(json, "client_id");
  file.client_secret = StringMember(json, "client_secret");
  file.workforce_user_project =
      StringMember(json, "workforce_pool_user_project");
  if (!json.contains("service_account_impersonation_url")) return Status();
  HF_RETURN_IF_ERROR(NeedSafeUrl(json, "service_account_impersonation_url",
                                 file.impersonation_url));
  file.account = AccountOfImpersonationUrl(file.impersonation_url);
  return Status();
}

Result<CredentialFile> FileOf(const FileJson& json, int depth);

Status ReadImpersonated(const FileJson& json, int depth, CredentialFile& file) {
  file.kind = CredentialFile::Kind::kImpersonated;
  HF_RETURN_IF_ERROR(NeedSafeUrl(json, "service_account_impersonation_url",
                                 file.impersonation_url));
  file.account = AccountOfImpersonationUrl(file.impersonation_url);
  const auto delegates = json.find("delegates");
  if (delegates != json.end() && delegates->is_array()) {
    for (const FileJson& delegate : *delegates) {
      if (delegate.is_string()) {
        file.delegates.push_back(delegate.get<std::string>());
      }
    }
  }
  const auto source = json.find("source_credentials");
  if (source == json.end() || !source->is_object()) {
    return InvalidArgumentError("the member source_credentials is missing");
  }
  auto inner = FileOf(*source, depth + 1);
  if (!inner.ok()) return inner.status().WithContext("source_credentials");
  file.source = std::make_shared<const CredentialFile>(*std::move(inner));
  return Status();
}

Status ReadKind(const FileJson& json, int depth, CredentialFile& file) {
  const std::string type = StringMember(json, "type");
  if (type == "service_account") return ReadServiceAccount(json, file);
  if (type == "authorized_user") return ReadAuthorizedUser(json, file);
  if (type == "external_account") return ReadExternalAccount(json, file);
  if (type == "impersonated_service_account") {
    return ReadImpersonated(json, depth, file);
  }
  if (type.empty()) {
    return InvalidArgumentError("the member type is missing or no text");
  }
  return UnimplementedError("credentials of type " + CleanServerText(type, 60) +
                            " are not supported");
}

Result<CredentialFile> FileOf(const FileJson& json, int depth) {
  // The file determines the nesting depth, so recursion needs a bound.
  if (depth > kImpersonationDepthMax) {
    return InvalidArgumentError(
        "too many source_credentials within each other");
  }
  CredentialFile file;
  HF_RETURN_IF_ERROR(ReadKind(json, depth, file));
  file.project = StringMember(json, "quota_project_id");
  if (file.project.empty()) file.project = StringMember(json, "project_id");
  return file;
}

}  // namespace

std::string_view CredentialKindName(CredentialFile::Kind kind) {
  switch (kind) {
    case CredentialFile::Kind::kServiceAccount:
      return "service account";
    case CredentialFile::Kind::kAuthorizedUser:
      return "user";
    case CredentialFile::Kind::kExternalAccount:
      return "workload identity federation";
    case CredentialFile::Kind::kImpersonated:
      return "impersonated service account";
  }
  return "";
}

Result<CredentialFile> ParseCredentialFile(std::string_view text) {
  if (text.size() > kCredentialFileBytesMax) {
    return InvalidArgumentError("longer than 256 KiB: no credentials file");
  }
  const FileJson json =
      FileJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return InvalidArgumentError("no JSON object");
  return FileOf(json, 0);
}

}  // namespace holdfast
