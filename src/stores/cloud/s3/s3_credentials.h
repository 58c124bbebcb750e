// S3Credentials: keys to sign with, found where Amazon's tools look, kept
// fresh.
//
// The order: anonymous; (unless a profile is asked for by option) the
// environment; the profile (assumed role, web identity, static keys,
// credential_process); AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN; the
// container's endpoint; the instance's metadata service, version 2. The first
// that is configured is used, and its failure is the answer. SSO is refused by
// name.
//
// Keys that expire are fetched anew by one thread some minutes before, while
// others go on with the old ones; when hardly any time is left all wait.
// Thread-safety: any thread. Units: nanoseconds since 1970.
// Errors: PermissionDenied (none found: the message lists where was looked;
// refused; SSO), InvalidArgument (files that contradict themselves),
// Unavailable (a service that does not answer). No secret, token or answer of
// a service is in a message.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/status.h"
#include "stores/cloud/fresh_secret.h"
#include "stores/cloud/remote_options.h"
#include "stores/cloud/s3/aws_profile.h"
#include "stores/cloud/s3/sigv4.h"
#include "stores/http/http_client.h"

namespace holdfast {

struct AwsCredentials {
  AwsKeys keys;            // empty: anonymous
  int64_t expires_ns = 0;  // 0: never
  std::string source;      // where they were found, for people

  bool is_anonymous() const { return keys.access_key_id.empty(); }
  // The last 4 characters of the key id, or fewer where it is short.
  std::string key_id_tail() const;
};

// One place that credentials come from; may wait for the network.
using CredentialSource = std::function<Result<AwsCredentials>()>;

// The source that the configuration names. No I/O but the shared files'.
Result<CredentialSource> FindCredentialSource(
    const AwsConfig& config, bool anonymous,
    const std::shared_ptr<HttpClient>& client);

class S3Credentials : public FreshSecret<AwsCredentials> {
 public:
  using Clock = UnixClock;

  explicit S3Credentials(CredentialSource source, Clock clock = {});
};

}  // namespace holdfast
