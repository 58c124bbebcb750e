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
#include <mutex>
#include <string>
#include <vector>

#include "cloud/remote_options.h"
#include "cloud/s3/aws_profile.h"
#include "cloud/s3/sigv4.h"
#include "holdfast/status.h"
#include "http/http_client.h"

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

class S3Credentials {
 public:
  using Clock = std::function<int64_t()>;  // nanoseconds since 1970

  explicit S3Credentials(CredentialSource source, Clock clock = {});

  // Fetches them, or anew when they expire soon. May wait for the network.
  Result<std::shared_ptr<const AwsCredentials>> Get();
  // The credentials last fetched; null before the first. Never waits.
  std::shared_ptr<const AwsCredentials> Current() const;
  // The server says that `stale` is no good any more: fetch anew, unless that
  // was done already.
  Result<std::shared_ptr<const AwsCredentials>> Renew(
      const std::shared_ptr<const AwsCredentials>& stale);

 private:
  using Pointer = std::shared_ptr<const AwsCredentials>;
  Result<Pointer> Fetch(const Pointer& stale);

  const CredentialSource source_;
  const Clock clock_;
  std::mutex fetch_mutex_;   // one fetch at a time
  int64_t next_try_ns_ = 0;  // of renewing early; guarded by fetch_mutex_
  mutable std::mutex mutex_;
  Pointer current_;  // guarded by mutex_
};

}  // namespace holdfast
