// S3Credentials: keys to sign with, found where Amazon's tools look, and kept
// fresh.
//
// The sources are, in this order: anonymous; the environment (unless an option
// names a profile); the profile (assumed role, web identity, static keys,
// credential_process); AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN; the
// container's endpoint; the instance's metadata service, version 2. The first
// configured source is used, and if it fails, its failure is returned. A
// profile with SSO is refused with an explanation.
//
// Some minutes before keys expire, one thread fetches new ones while other
// threads continue with the old ones. When hardly any time is left, all threads
// wait.
// Thread-safety: any thread. Units: nanoseconds since 1970.
// Errors: PermissionDenied (refused; SSO; no credentials found, and the message
// lists the places tried), InvalidArgument (files that contradict themselves),
// Unavailable (a service that does not answer). No message contains a secret, a
// token or a service's answer.
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
  std::string source;      // where the keys were found, for display

  bool is_anonymous() const { return keys.access_key_id.empty(); }
  // Returns the last 4 characters of the key id, or fewer if it is short.
  std::string key_id_tail() const;
};

// One source of credentials; may wait for the network.
using CredentialSource = std::function<Result<AwsCredentials>()>;

// Returns the source that the configuration selects. Does no I/O except reading
// the shared files.
Result<CredentialSource> FindCredentialSource(
    const AwsConfig& config, bool anonymous,
    const std::shared_ptr<HttpClient>& client);

class S3Credentials : public FreshSecret<AwsCredentials> {
 public:
  using Clock = UnixClock;

  explicit S3Credentials(CredentialSource source, Clock clock = {});
};

}  // namespace holdfast
