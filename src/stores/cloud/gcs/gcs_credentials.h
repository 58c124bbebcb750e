// GcsCredentials: access tokens, found where Google's tools look, and kept
// fresh.
//
// Nothing is read or requested before the first Get. Some minutes before a
// token expires, one thread fetches a new one while other threads continue with
// the old one. When hardly any time is left, all threads wait.
// Thread-safety: any thread. Units: nanoseconds since 1970.
// Errors: those of token_source.h; FailedPrecondition if a real token would be
// sent over plain http to another machine.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "holdfast/status.h"
#include "stores/cloud/gcs/token_source.h"

namespace holdfast {

// The owner of the credentials, for display. Never contains a secret.
struct GcsIdentity {
  std::string kind;     // "service account", "anonymous", …
  std::string account;  // e-mail, where known
  std::string where;    // where the credentials were found
  std::string project;  // to bill, if the credentials say

  // Returns "service account a@b from GOOGLE_APPLICATION_CREDENTIALS
  // (/key.json)", for example.
  std::string Text() const;
};

class GcsCredentials {
 public:
  using Finder = std::function<Result<TokenSource>()>;

  // `plain_http` means that tokens are sent over plain http to another machine,
  // which is allowed only for a testing token.
  GcsCredentials(Finder finder, bool plain_http, UnixClock clock);

  // Returns "Bearer …", or "" to send no token. May wait for the network.
  Result<std::string> Get();
  // Returns the token that was last fetched, "" before the first. Never waits.
  std::string Current() const;
  // Fetches a new token because the server refused `stale`, unless another
  // caller has done so already.
  Result<std::string> Renew(const std::string& stale);
  // Returns whose credentials are used. May wait for the network, but fetches
  // no token.
  Result<GcsIdentity> Identity();
  // Returns the identity as text; "not looked for yet" before the first Get or
  // Identity.
  std::string IdentityText() const;

 private:
  using SourcePointer = std::shared_ptr<const TokenSource>;
  Result<SourcePointer> Source();
  Result<GcsToken> Fetch();

  const Finder finder_;
  const bool plain_http_;
  std::mutex find_mutex_;  // one finder at a time
  mutable std::mutex mutex_;
  SourcePointer source_;         // guarded by mutex_
  FreshSecret<GcsToken> token_;  // text with "Bearer "
};

}  // namespace holdfast
