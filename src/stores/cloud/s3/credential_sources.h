// Sources of credentials other than files and environment variables: STS, a
// container's endpoint, the instance's metadata, a program.
//
// Each call makes a new request and waits for the answer. Thread-safety: any
// thread. Ownership: `client` is borrowed for the call. Units: nanoseconds
// since 1970.
// Errors: PermissionDenied (refused, with STS's code and message), Unavailable
// (no answer), DataLoss (not the documented answer), InvalidArgument. No
// message contains a token, a secret or a body.
#pragma once

#include <string>

#include "holdfast/status.h"
#include "stores/cloud/s3/s3_credentials.h"
#include "stores/http/http_client.h"

namespace holdfast {

struct AssumeRole {
  std::string endpoint;  // "https://sts.eu-west-1.amazonaws.com"
  std::string region;    // the region that the request is signed for
  std::string role_arn;
  std::string session_name;
  std::string external_id;       // "": none
  std::string duration_seconds;  // "": STS's default
  std::string token_file;        // with a web identity's token
};

// Assumes the role with the given keys.
Result<AwsCredentials> AssumeRoleWithKeys(const AssumeRole& role,
                                          const AwsKeys& keys,
                                          HttpClient& client);
// Assumes the role with the token in role.token_file, which each call reads
// anew.
Result<AwsCredentials> AssumeRoleWithToken(const AssumeRole& role,
                                           HttpClient& client);

// Uses AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI. Sends the
// AWS_CONTAINER_AUTHORIZATION_TOKEN(_FILE) with the request.
Result<AwsCredentials> ContainerCredentials(const Environment& environment,
                                            HttpClient& client);

// Uses version 2 of the metadata service: requests a token, then the role's
// keys.
Result<AwsCredentials> InstanceCredentials(const Environment& environment,
                                           HttpClient& client);

Result<AwsCredentials> ProcessCredentials(const std::string& command);

// Parses {"AccessKeyId", "SecretAccessKey", "Token" or "SessionToken",
// "Expiration"}. `source` is for messages.
Result<AwsCredentials> ParseJsonCredentials(std::string_view json,
                                            const std::string& source);

}  // namespace holdfast
