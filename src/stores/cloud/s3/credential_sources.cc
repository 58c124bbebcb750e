#include "stores/cloud/s3/credential_sources.h"

#include <cerrno>
#include <chrono>
#include <utility>
#include <vector>

#include "ground/base/status_macros.h"
#include "ground/json/members.h"
#include "stores/cloud/environment.h"
#include "stores/cloud/s3/credential_process.h"
#include "stores/cloud/s3/s3_xml.h"
#include "stores/http/http_date.h"
#include "stores/http/url.h"

namespace holdfast {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kAnswerBytesMax = 1 << 20;
constexpr size_t kTokenBytesMax = 64 << 10;
constexpr milliseconds kStsDeadline{30'000};
constexpr milliseconds kContainerDeadline{5'000};
constexpr std::chrono::seconds kProcessDeadline{60};
constexpr std::string_view kContainerHost = "http://169.254.170.2";

// Returns the first line of a token file, without its line end.
Result<std::string> ReadTokenFile(const std::string& path) {
  std::string token;
  const int error = ReadSmallFile(path, kTokenBytesMax, token);
  if (error == EFBIG) {
    return InvalidArgumentError(path + ": longer than 64 KiB; want a token");
  }
  if (error != 0) {
    return PermissionDeniedError(path + ": the token file cannot be opened");
  }
  const size_t last = token.find_last_not_of(" \t\r\n");
  token.resize(last == std::string::npos ? 0 : last + 1);
  if (token.empty()) {
    return PermissionDeniedError(path + ": the token file is empty");
  }
  if (token.find_first_of("\r\n") != std::string::npos) {
    return InvalidArgumentError(path + ": more than one line; want a token");
  }
  return token;
}

HttpRequest StsRequest(const AssumeRole& role, std::string_view action,
                       std::string& form) {
  const auto add = [&](std::string_view key, std::string_view value) {
    if (value.empty()) return;
    if (!form.empty()) form += '&';
    form += std::string(key) + '=' + EscapeComponent(value);
  };
  add("Action", action);
  add("Version", "2011-06-15");
  add("RoleArn", role.role_arn);
  add("RoleSessionName", role.session_name);
  add("DurationSeconds", role.duration_seconds);
  HttpRequest request;
  request.method = "POST";
  request.url = role.endpoint;
  if (!request.url.ends_with('/')) request.url += '/';
  request.headers = {
      {"Content-Type", "application/x-www-form-urlencoded; charset=utf-8"}};
  request.body_bytes_max = kAnswerBytesMax;
  request.deadline = kStsDeadline;
  return request;
}

Result<AwsCredentials> SendToSts(const AssumeRole& role,
                                 const HttpRequest& request,
                                 HttpClient& client) {
  const std::string what =
      "STS " + RedactUrl(role.endpoint) + ": assuming role " + role.role_arn;
  HF_ASSIGN_OR_RETURN(const HttpResponse response, client.Send(request));
  if (response.status != 200) {
    const S3Error error = ParseS3Error(response.body.view());
    std::string why = "status " + std::to_string(response.status);
    if (!error.code.empty()) why += " " + error.code + ": " + error.message;
    if (response.status >= 500) return UnavailableError(what + ": " + why);
    return PermissionDeniedError(what + ": " + why);
  }
  auto keys = ParseStsKeys(response.body.view());
  if (!keys.ok()) return keys.status().WithContext(what);
  return AwsCredentials{
      {keys->access_key_id, keys->secret_access_key, keys->session_token},
      keys->expires_ns,
      "role " + role.role_arn + " of STS"};
}

// Returns true for the hosts to which a container may send its token without
// TLS.
bool IsLocalHost(const std::string& host) {
  return host == "localhost" || host == "[::1]" || host == "::1" ||
         host.rfind("127.", 0) == 0 || host == "169.254.170.2" ||
         host == "169.254.170.23" || host == "[fd00:ec2::23]" ||
         host == "fd00:ec2::23";
}

Result<std::string> MetadataEndpoint(const Environment& environment) {
  std::string endpoint = environment("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  const std::string mode =
      environment("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
  if (endpoint.empty()) {
    endpoint = mode == "IPv6" || mode == "ipv6" ? "http://[fd00:ec2::254]"
                                                : "http://169.254.169.254";
  }
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (!endpoint.starts_with("http://") && !endpoint.starts_with("https://")) {
    return InvalidArgumentError(
        "AWS_EC2_METADATA_SERVICE_ENDPOINT: not an http:// URL");
  }
  return endpoint;
}

milliseconds MetadataDeadline(const Environment& environment) {
  const std::string seconds = environment("AWS_METADATA_SERVICE_TIMEOUT");
  const bool is_number =
      !seconds.empty() && seconds.size() <= 3 &&
      seconds.find_first_not_of("0123456789") == std::string::npos;
  return milliseconds(is_number ? 1000 * std::max(1, std::stoi(seconds))
                                : 1000);
}

}  // namespace

Result<AwsCredentials> AssumeRoleWithKeys(const AssumeRole& role,
                                          const AwsKeys& keys,
                                          HttpClient& client) {
  std::string form;
  HttpRequest request = StsRequest(role, "AssumeRole", form);
  if (!role.external_id.empty()) {
    form += "&ExternalId=" + EscapeComponent(role.external_id);
  }
  request.body = {form};
  SigningKeyCache cache;
  request.prepare = [&, hash = Sha256Hex(form)](HttpRequest& attempt) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const SigningScope scope{
        role.region, "sts",
        std::chrono::duration_cast<std::chrono::seconds>(now).count()};
    return SignV4(keys, scope, hash, cache, attempt);
  };
  return SendToSts(role, request, client);
}

Result<AwsCredentials> AssumeRoleWithToken(const AssumeRole& role,
                                           HttpClient& client) {
  HF_ASSIGN_OR_RETURN(const std::string token, ReadTokenFile(role.token_file));
  std::string form;
  HttpRequest request = StsRequest(role, "AssumeRoleWithWebIdentity", form);
  form += "&WebIdentityToken=" + EscapeComponent(token);
  request.body = {form};
  return SendToSts(role, request, client);
}

Result<AwsCredentials> ContainerCredentials(const Environment& environment,
                                            HttpClient& client) {
  const std::string relative =
      environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  std::string url = environment("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (!relative.empty()) url = std::string(kContainerHost) + relative;
  HF_ASSIGN_OR_RETURN(const Url parts, ParseUrl(url));
  // Without this check, the variable could send the container's token to any
  // host unencrypted.
  if (parts.scheme != "https" && !IsLocalHost(parts.host)) {
    return PermissionDeniedError(
        "AWS_CONTAINER_CREDENTIALS_FULL_URI: " + RedactUrl(url) +
        " is neither https nor a host of the container's own: it gets no "
        "token");
  }
  HttpRequest request;
  request.url = url;
  request.body_bytes_max = kAnswerBytesMax;
  request.deadline = kContainerDeadline;
  const std::string token_file =
      environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  std::string token = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  if (!token_file.empty()) {
    HF_ASSIGN_OR_RETURN(token, ReadTokenFile(token_file));
  }
  if (token.find_first_of("\r\n") != std::string::npos) {
    return InvalidArgumentError(
        "AWS_CONTAINER_AUTHORIZATION_TOKEN: more than one line");
  }
  if (!token.empty()) request.headers.emplace_back("Authorization", token);
  const std::string source = "container endpoint " + RedactUrl(url);
  HF_ASSIGN_OR_RETURN(const HttpResponse response, client.Send(request));
  if (response.status != 200) {
    return PermissionDeniedError(source + ": status " +
                                 std::to_string(response.status));
  }
  return ParseJsonCredentials(response.body.view(), source);
}

Result<AwsCredentials> InstanceCredentials(const Environment& environment,
                                           HttpClient& client) {
  HF_ASSIGN_OR_RETURN(const std::string endpoint,
                      MetadataEndpoint(environment));
  const std::string source = "instance metadata " + RedactUrl(endpoint);
  HttpRequest request;
  // IMDSv2 first requests a session token with PUT, which a naive proxy does
  // not forward.
  request.method = "PUT";
  request.url = endpoint + "/latest/api/token";
  request.headers = {{"X-aws-ec2-metadata-token-ttl-seconds", "21600"}};
  request.body_bytes_max = kAnswerBytesMax;
  request.deadline = MetadataDeadline(environment);
  HF_ASSIGN_OR_RETURN(const HttpResponse token, client.Send(request));
  const std::string_view token_text = token.body.view();
  if (token.status != 200 || token_text.empty() ||
      token_text.find_first_of("\r\n") != std::string_view::npos) {
    return PermissionDeniedError(source + ": no session token: status " +
                                 std::to_string(token.status));
  }
  request.method = "GET";
  request.headers = {{"X-aws-ec2-metadata-token", std::string(token_text)}};
  request.url = endpoint + "/latest/meta-data/iam/security-credentials/";
  HF_ASSIGN_OR_RETURN(const HttpResponse roles, client.Send(request));
  const std::string_view names = roles.body.view();
  const std::string role(names.substr(0, names.find_first_of("\r\n")));
  if (roles.status != 200 || role.empty() || role.size() > 256) {
    return PermissionDeniedError(source +
                                 ": the instance has no role: status " +
                                 std::to_string(roles.status));
  }
  request.url += EscapeComponent(role);
  HF_ASSIGN_OR_RETURN(const HttpResponse response, client.Send(request));
  if (response.status != 200) {
    return PermissionDeniedError(source + ": role " + role + ": status " +
                                 std::to_string(response.status));
  }
  return ParseJsonCredentials(response.body.view(), source + ", role " + role);
}

Result<AwsCredentials> ProcessCredentials(const std::string& command) {
  HF_ASSIGN_OR_RETURN(const std::string output,
                      RunCredentialProcess(command, kProcessDeadline));
  return ParseJsonCredentials(output, "credential_process");
}

Result<AwsCredentials> ParseJsonCredentials(std::string_view json,
                                            const std::string& source) {
  const auto parsed = ParseJsonObject(json);
  if (!parsed.ok()) return parsed.status().WithContext(source);
  const nlohmann::json& document = *parsed;
  AwsCredentials credentials;
  credentials.source = source;
  credentials.keys.access_key_id = StringMember(document, "AccessKeyId");
  credentials.keys.secret_access_key =
      StringMember(document, "SecretAccessKey");
  credentials.keys.session_token = StringMember(document, "SessionToken");
  if (credentials.keys.session_token.empty()) {
    credentials.keys.session_token = StringMember(document, "Token");
  }
  if (credentials.keys.access_key_id.empty() ||
      credentials.keys.secret_access_key.empty()) {
    std::string code = StringMember(document, "Code").substr(0, 64);
    if (!code.empty()) code = ": it says " + code;
    return PermissionDeniedError(
        source + ": the answer has no AccessKeyId and SecretAccessKey" + code);
  }
  const std::string expiry = StringMember(document, "Expiration");
  if (!expiry.empty()) {
    const auto expires_ns = ParseIsoTime(expiry);
    if (!expires_ns) {
      return DataLossError(source + ": Expiration is not an ISO 8601 time");
    }
    credentials.expires_ns = *expires_ns;
  }
  return credentials;
}

}  // namespace holdfast
