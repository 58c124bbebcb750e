#include "stores/cloud/s3/s3_credentials.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "ground/base/clock.h"
#include "ground/base/status_macros.h"
#include "stores/cloud/s3/credential_sources.h"
#include "stores/cloud/s3/s3_settings.h"

namespace holdfast {
namespace {

constexpr int64_t kNsPerMinute = 60'000'000'000;
CredentialSource FixedSource(AwsCredentials credentials) {
  return [credentials = std::move(credentials)]() -> Result<AwsCredentials> {
    return credentials;
  };
}

// The profiles visited so far, to detect a cycle.
using ProfileNames = std::set<std::string, std::less<>>;

// Builds the source of one profile and of the profiles that it depends on.
class ProfileSources {
 public:
  ProfileSources(const AwsConfig& config, std::shared_ptr<HttpClient> client)
      : config_(config), client_(std::move(client)) {}

  // Returns the profile's source; null if the profile has no credentials.
  Result<CredentialSource> Find(const std::string& name) {
    if (config_.Profile(name, "role_arn")) return AssumedRole(name);
    return WithoutRole(name);
  }

 private:
  Status Wrong(const std::string& name, const std::string& why) const {
    return InvalidArgumentError("profile " + name + ": " + why);
  }

  Result<CredentialSource> WithoutRole(const std::string& name) {
    HF_ASSIGN_OR_RETURN(CredentialSource fixed, StaticKeys(name));
    if (fixed) return fixed;
    if (const auto command = config_.Profile(name, "credential_process")) {
      return CredentialSource([line = command->value, name] {
        auto credentials = ProcessCredentials(line);
        if (credentials.ok()) {
          credentials->source = "credential_process of profile " + name;
        }
        return credentials;
      });
    }
    if (config_.Profile(name, "sso_session") ||
        config_.Profile(name, "sso_start_url")) {
      return PermissionDeniedError(
          "profile " + name +
          " signs in by SSO, which holdfast does not support: run `aws "
          "configure export-credentials --profile " +
          name +
          " --format env`, or make it the credential_process of a profile");
    }
    return CredentialSource();
  }

  Result<CredentialSource> StaticKeys(const std::string& name) {
    const auto id = config_.Profile(name, "aws_access_key_id");
    const auto secret = config_.Profile(name, "aws_secret_access_key");
    if (!id && !secret) return CredentialSource();
    if (!id || !secret || id->source != secret->source) {
      return Wrong(name,
                   "aws_access_key_id and aws_secret_access_key must both be "
                   "in one file");
    }
    AwsCredentials credentials{{id->value, secret->value, ""}, 0, id->source};
    const auto token = config_.Profile(name, "aws_session_token");
    if (token && token->source == id->source) {
      credentials.keys.session_token = token->value;
    }
    return FixedSource(std::move(credentials));
  }

  Result<CredentialSource> AssumedRole(const std::string& name) {
    if (!visited_.insert(name).second) {
      return Wrong(name, "its source_profile leads back to it");
    }
    if (config_.Profile(name, "mfa_serial")) {
      return Wrong(name,
                   "mfa_serial asks for a code, which holdfast cannot ask for: "
                   "use credential_process");
    }
    AssumeRole role = RoleOf(name);
    if (const auto file = config_.Profile(name, "web_identity_token_file")) {
      role.token_file = file->value;
      return CredentialSource([role, client = client_] {
        return AssumeRoleWithToken(role, *client);
      });
    }
    HF_ASSIGN_OR_RETURN(CredentialSource base, BaseOf(name));
    return CredentialSource([role, base = std::move(base),
                             client = client_]() -> Result<AwsCredentials> {
      HF_ASSIGN_OR_RETURN(const AwsCredentials own, base());
      return AssumeRoleWithKeys(role, own.keys, *client);
    });
  }

  // Returns the source of the credentials with which the role is requested.
  Result<CredentialSource> BaseOf(const std::string& name) {
    const auto source_profile = config_.Profile(name, "source_profile");
    const auto named_source = config_.Profile(name, "credential_source");
    if (source_profile && named_source) {
      return Wrong(name,
                   "source_profile and credential_source exclude "
                   "each other");
    }
    if (source_profile) {
      const std::string& from = source_profile->value;
      if (!config_.HasProfile(from)) {
        return Wrong(name, "its source_profile " + from + " does not exist");
      }
      // A profile may name itself as its source. It then uses its own keys.
      HF_ASSIGN_OR_RETURN(CredentialSource source,
                          from == name ? WithoutRole(name) : Find(from));
      if (source) return source;
      return Wrong(name, "its source_profile " + from + " has no credentials");
    }
    if (!named_source) {
      return Wrong(name,
                   "role_arn needs source_profile, credential_source or "
                   "web_identity_token_file");
    }
    const std::string& kind = named_source->value;
    const Environment environment = config_.environment;
    const auto client = client_;
    if (kind == "Environment") {
      AwsCredentials own{{environment("AWS_ACCESS_KEY_ID"),
                          environment("AWS_SECRET_ACCESS_KEY"),
                          environment("AWS_SESSION_TOKEN")}};
      if (own.is_anonymous()) {
        return Wrong(name,
                     "credential_source is Environment, and "
                     "AWS_ACCESS_KEY_ID is not set");
      }
      return FixedSource(std::move(own));
    }
    if (kind == "Ec2InstanceMetadata") {
      return CredentialSource([environment, client] {
        return InstanceCredentials(environment, *client);
      });
    }
    if (kind == "EcsContainer") {
      return CredentialSource([environment, client] {
        return ContainerCredentials(environment, *client);
      });
    }
    return Wrong(name, "credential_source \"" + kind + "\" is not known");
  }

  AssumeRole RoleOf(const std::string& name) const {
    const auto value = [&](std::string_view key) {
      const auto setting = config_.Profile(name, key);
      return setting ? setting->value : std::string();
    };
    AssumeRole role = StsOf(config_);
    role.role_arn = value("role_arn");
    role.external_id = value("external_id");
    role.duration_seconds = value("duration_seconds");
    if (const auto session = value("role_session_name"); !session.empty()) {
      role.session_name = session;
    }
    return role;
  }

 public:
  static AssumeRole StsOf(const AwsConfig& config) {
    AssumeRole role;
    role.session_name = "holdfast-" + std::to_string(getpid());
    const auto region = config.Region();
    role.region = region ? region->value : "us-east-1";
    const auto endpoint = config.Endpoint("sts");
    role.endpoint = endpoint ? endpoint->value
                    : region ? "https://sts." + region->value + "." +
                                   AmazonDomain(region->value)
                             : "https://sts.amazonaws.com";
    return role;
  }

 private:
  const AwsConfig& config_;
  const std::shared_ptr<HttpClient> client_;
  ProfileNames visited_;
};

// Returns the keys in the environment variables; null if they are not set.
Result<CredentialSource> EnvironmentKeys(const AwsConfig& config) {
  AwsCredentials own{{config.Variable("AWS_ACCESS_KEY_ID"),
                      config.Variable("AWS_SECRET_ACCESS_KEY"),
                      config.Variable("AWS_SESSION_TOKEN")},
                     0,
                     "environment (AWS_ACCESS_KEY_ID)"};
  if (own.keys.access_key_id.empty()) return CredentialSource();
  if (own.keys.secret_access_key.empty()) {
    return InvalidArgumentError(
        "AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not");
  }
  return FixedSource(std::move(own));
}

// Returns the service that this machine's or container's environment names.
CredentialSource ServiceSource(const AwsConfig& config,
                               const std::shared_ptr<HttpClient>& client) {
  const Environment environment = config.environment;
  const std::string token_file = config.Variable("AWS_WEB_IDENTITY_TOKEN_FILE");
  if (!token_file.empty()) {
    AssumeRole role = ProfileSources::StsOf(config);
    role.token_file = token_file;
    role.role_arn = config.Variable("AWS_ROLE_ARN");
    const std::string session = config.Variable("AWS_ROLE_SESSION_NAME");
    if (!session.empty()) role.session_name = session;
    return [role, client]() -> Result<AwsCredentials> {
      if (role.role_arn.empty()) {
        return InvalidArgumentError(
            "AWS_WEB_IDENTITY_TOKEN_FILE is set and AWS_ROLE_ARN is not");
      }
      return AssumeRoleWithToken(role, *client);
    };
  }
  if (!config.Variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").empty() ||
      !config.Variable("AWS_CONTAINER_CREDENTIALS_FULL_URI").empty()) {
    return [environment, client] {
      return ContainerCredentials(environment, *client);
    };
  }
  return {};
}

Status NoneFound(const AwsConfig& config, const std::string& metadata) {
  return PermissionDeniedError(
      "no S3 credentials are found. Looked in: environment "
      "(AWS_ACCESS_KEY_ID); profile " +
      config.profile + " in " + config.credentials_path + " and " +
      config.config_path +
      "; AWS_WEB_IDENTITY_TOKEN_FILE; AWS_CONTAINER_CREDENTIALS_FULL_URI and "
      "_RELATIVE_URI; " +
      metadata +
      ". Set one of them, or ask for anonymous access if the bucket is public");
}

}  // namespace

std::string AwsCredentials::key_id_tail() const {
  const std::string& id = keys.access_key_id;
  // At most a third of a short id is shown.
  const size_t char_count = std::min<size_t>(4, id.size() / 3);
  return id.substr(id.size() - char_count);
}

Result<CredentialSource> FindCredentialSource(
    const AwsConfig& config, bool anonymous,
    const std::shared_ptr<HttpClient>& client) {
  if (anonymous) return FixedSource({{}, 0, "none (anonymous)"});
  if (!config.profile_is_explicit) {
    HF_ASSIGN_OR_RETURN(CredentialSource source, EnvironmentKeys(config));
    if (source) return source;
  }
  ProfileSources profiles(config, client);
  HF_ASSIGN_OR_RETURN(CredentialSource source, profiles.Find(config.profile));
  if (source) return source;
  source = ServiceSource(config, client);
  if (source) return source;
  const std::string disabled = config.Variable("AWS_EC2_METADATA_DISABLED");
  if (disabled == "true" || disabled == "True" || disabled == "TRUE") {
    return NoneFound(config,
                     "not the metadata service (AWS_EC2_METADATA_DISABLED)");
  }
  return CredentialSource([config, client]() -> Result<AwsCredentials> {
    auto credentials = InstanceCredentials(config.environment, *client);
    if (credentials.ok()) return credentials;
    return NoneFound(config, "the instance's metadata service (" +
                                 std::string(credentials.status().message()) +
                                 ")");
  });
}

S3Credentials::S3Credentials(CredentialSource source, Clock clock)
    : FreshSecret(std::move(source),
                  clock ? std::move(clock) : Clock(&SystemNowNs),
                  {.renew_before_ns = 10 * kNsPerMinute,
                   .wait_before_ns = 2 * kNsPerMinute,
                   .retry_every_ns = kNsPerMinute}) {}

}  // namespace holdfast
