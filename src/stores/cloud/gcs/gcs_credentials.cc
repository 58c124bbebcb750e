#include "stores/cloud/gcs/gcs_credentials.h"

#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

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
      token_([this] { return Fetch(); }, std::move(clock),
             {.renew_before_ns = 240'000'000'000,
              .wait_before_ns = 10'000'000'000}) {}

Result<std::string> GcsCredentials::Get() {
  HF_ASSIGN_OR_RETURN(const auto token, token_.Get());
  return token->text;
}

std::string GcsCredentials::Current() const {
  const auto token = token_.Current();
  return token == nullptr ? "" : token->text;
}

Result<std::string> GcsCredentials::Renew(const std::string& stale) {
  const auto current = token_.Current();
  // Another thread has renewed the token.
  if (current == nullptr || current->text != stale) return Current();
  HF_ASSIGN_OR_RETURN(const auto token, token_.Renew(current));
  return token->text;
}

Result<GcsIdentity> GcsCredentials::Identity() {
  HF_ASSIGN_OR_RETURN(const SourcePointer source, Source());
  return IdentityOf(*source);
}

std::string GcsCredentials::IdentityText() const {
  const std::lock_guard lock(mutex_);
  return source_ == nullptr ? "not looked for yet"
                            : IdentityOf(*source_).Text();
}

Result<GcsCredentials::SourcePointer> GcsCredentials::Source() {
  const std::lock_guard finding(find_mutex_);
  {
    const std::lock_guard lock(mutex_);
    if (source_ != nullptr) return source_;
  }
  HF_ASSIGN_OR_RETURN(TokenSource source, finder_());
  // A token sent over plain HTTP can be read by anyone on the network path.
  if (plain_http_ && !source.is_test_token && source.kind != "anonymous") {
    return FailedPreconditionError(
        "the endpoint is plain http on another machine: no token of " +
        IdentityOf(source).Text() +
        " is sent there; use https, or ask for anonymous access");
  }
  const std::lock_guard lock(mutex_);
  source_ = std::make_shared<const TokenSource>(std::move(source));
  return source_;
}

Result<GcsToken> GcsCredentials::Fetch() {
  HF_ASSIGN_OR_RETURN(const SourcePointer source, Source());
  auto token = source->fetch();
  if (!token.ok()) {
    return token.status().WithContext("credentials of " +
                                      IdentityOf(*source).Text());
  }
  if (!token->text.empty()) token->text = "Bearer " + token->text;
  return token;
}

}  // namespace holdfast
