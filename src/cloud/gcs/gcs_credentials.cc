#include "cloud/gcs/gcs_credentials.h"

#include "base/status_macros.h"

namespace holdfast {
namespace {

constexpr int64_t kFetchBeforeNs = 240'000'000'000;
constexpr int64_t kWaitBeforeNs = 10'000'000'000;

GcsIdentity IdentityOf(const TokenSource& source) {
  return {source.kind, source.account, source.where, source.project};
}

}  // namespace

std::string GcsIdentity::Text() const {
  std::string text = kind;
  if (!account.empty()) text += " " + account;
  return text + (kind == "anonymous" ? " (" + where + ")" : " from " + where);
}

GcsCredentials::GcsCredentials(Finder finder, bool plain_http, UnixClock clock)
    : finder_(std::move(finder)),
      plain_http_(plain_http),
      clock_(std::move(clock)) {}

Result<std::string> GcsCredentials::Get() {
  bool must_wait = true;
  {
    const std::lock_guard lock(mutex_);
    if (has_token_) {
      const int64_t left_ns = token_.expires_ns - clock_();
      if (token_.expires_ns == 0 || left_ns > kFetchBeforeNs) {
        return token_.text;
      }
      // The token still works for a while: one thread renews it, the others go
      // on.
      must_wait = left_ns <= kWaitBeforeNs;
    }
  }
  std::unique_lock fetching(fetch_mutex_, std::defer_lock);
  if (must_wait) {
    fetching.lock();
  } else if (!fetching.try_lock()) {
    return Current();
  }
  {
    const std::lock_guard lock(mutex_);
    if (has_token_ && (token_.expires_ns == 0 ||
                       token_.expires_ns - clock_() > kFetchBeforeNs)) {
      return token_.text;  // another thread was first
    }
  }
  auto fetched = Fetch();
  // If renewing failed, the old token is still good for a while.
  if (!fetched.ok() && !must_wait) return Current();
  return fetched;
}

std::string GcsCredentials::Current() const {
  const std::lock_guard lock(mutex_);
  return token_.text;
}

Result<std::string> GcsCredentials::Renew(const std::string& stale) {
  const std::lock_guard fetching(fetch_mutex_);
  const std::string current = Current();
  // Another thread has renewed it.
  if (current != stale) return current;
  return Fetch();
}

Result<GcsIdentity> GcsCredentials::Identity() {
  const std::lock_guard fetching(fetch_mutex_);
  HF_RETURN_IF_ERROR(FindSource());
  const std::lock_guard lock(mutex_);
  return IdentityOf(*source_);
}

std::string GcsCredentials::IdentityText() const {
  const std::lock_guard lock(mutex_);
  return source_ == nullptr ? "not looked for yet"
                            : IdentityOf(*source_).Text();
}

Status GcsCredentials::FindSource() {
  {
    const std::lock_guard lock(mutex_);
    if (source_ != nullptr) return Status();
  }
  HF_ASSIGN_OR_RETURN(TokenSource source, finder_());
  // A token sent over plain HTTP can be read by anybody on the way.
  if (plain_http_ && !source.is_test_token && source.kind != "anonymous") {
    return FailedPreconditionError(
        "the endpoint is plain http on another machine: no token of " +
        IdentityOf(source).Text() +
        " is sent there; use https, or ask for anonymous access");
  }
  const std::lock_guard lock(mutex_);
  source_ = std::make_shared<const TokenSource>(std::move(source));
  return Status();
}

Result<std::string> GcsCredentials::Fetch() {
  HF_RETURN_IF_ERROR(FindSource());
  std::shared_ptr<const TokenSource> source;
  {
    const std::lock_guard lock(mutex_);
    source = source_;
  }
  auto token = source->fetch();
  if (!token.ok()) {
    return token.status().WithContext("credentials of " +
                                      IdentityOf(*source).Text());
  }
  if (!token->text.empty()) token->text = "Bearer " + token->text;
  const std::lock_guard lock(mutex_);
  token_ = *std::move(token);
  has_token_ = true;
  return token_.text;
}

}  // namespace holdfast
