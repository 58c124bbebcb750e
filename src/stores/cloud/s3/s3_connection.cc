#include "stores/cloud/s3/s3_connection.h"

#include <cstdlib>

#include "ground/base/clock.h"
#include "ground/base/status_macros.h"
#include "stores/http/url.h"

namespace holdfast {
namespace {

constexpr int64_t kNsInSecond = 1'000'000'000;
// Clock differences below this are ignored. S3 refuses signatures whose time is
// off by 15 minutes.
constexpr int64_t kSkewNsMin = 240 * kNsInSecond;

bool IsTls(const HttpRequest& request) {
  return request.url.starts_with("https://");
}

}  // namespace

S3Connection::S3Connection(S3Settings settings, CredentialSource source,
                           std::shared_ptr<HttpClient> client,
                           S3Credentials::Clock clock)
    : settings_(std::move(settings)),
      client_(std::move(client)),
      clock_(clock ? std::move(clock) : S3Credentials::Clock(&SystemNowNs)),
      credentials_(std::move(source), clock_),
      region_(settings_.region) {}

std::string S3Connection::region() const {
  const std::lock_guard lock(mutex_);
  return region_;
}

std::string S3Connection::UrlOf(std::string_view key) const {
  return "s3://" + settings_.bucket + '/' + std::string(key);
}

HttpRequest S3Connection::Build(const S3Request& request) const {
  HttpRequest built = request;
  built.url = BucketUrl(settings_, region());
  built.url += '/' + EscapePath(request.key);
  char separator = '?';
  for (const auto& [key, value] : request.query) {
    built.url +=
        separator + EscapeComponent(key) + '=' + EscapeComponent(value);
    separator = '&';
  }
  if (settings_.requester_pays) {
    built.headers.emplace_back("x-amz-request-payer", "requester");
  }
  return built;
}

Status S3Connection::Sign(HttpRequest& attempt, const std::string& region,
                          const std::string& payload_hash) {
  const auto credentials = credentials_.Current();
  if (credentials == nullptr || credentials->is_anonymous()) return {};
  const SigningScope scope{region, "s3",
                           (clock_() + clock_offset_ns_) / kNsInSecond};
  return SignV4(credentials->keys, scope, payload_hash, key_cache_, attempt);
}

Result<HttpResponse> S3Connection::Send(const S3Request& request) {
  auto answers = SendAll(std::span(&request, 1));
  return std::move(answers[0]);
}

std::vector<Result<HttpResponse>> S3Connection::SendAll(
    std::span<const S3Request> requests) {
  std::vector<Result<HttpResponse>> answers(
      requests.size(), Result<HttpResponse>(CancelledError("not sent")));
  std::vector<unsigned> mended(requests.size(), 0);
  std::vector<size_t> open(requests.size());
  for (size_t i = 0; i < open.size(); ++i) open[i] = i;
  while (!open.empty()) {
    const auto credentials = credentials_.Get();
    std::vector<HttpRequest> batch;
    for (const size_t i : open) {
      if (!credentials.ok()) {
        answers[i] = credentials.status().WithContext(UrlOf(requests[i].key));
        continue;
      }
      HttpRequest built = Build(requests[i]);
      // TLS protects the body, so gigabytes need not be hashed for the
      // signature.
      built.prepare =
          [this, region = region(),
           hash = IsTls(built) ? std::string(kUnsignedPayload)
                               : Sha256Hex(built.body)](HttpRequest& attempt) {
            return Sign(attempt, region, hash);
          };
      batch.push_back(std::move(built));
    }
    if (batch.empty()) break;
    auto received = client_->SendAll(batch);
    std::vector<size_t> again;
    for (size_t k = 0; k < open.size(); ++k) {
      const size_t i = open[k];
      answers[i] = std::move(received[k]);
      if (!answers[i].ok()) {
        answers[i] = answers[i].status().WithContext(UrlOf(requests[i].key) +
                                                     ": " + requests[i].action);
        continue;
      }
      server_clock_.Note(answers[i]->headers);
      if (MendFor(*answers[i], mended[i])) again.push_back(i);
    }
    open = std::move(again);
  }
  return answers;
}

bool S3Connection::MendFor(const HttpResponse& response, unsigned& done) {
  if (response.status < 300) return false;
  const S3Error error = ErrorOfResponse(response);
  // Each change is tried once per request, so that a server that repeats its
  // answer cannot cause an endless loop.
  const auto once = [&](Mend mend, bool helps) {
    if (!helps) return false;
    done |= mend;
    return true;
  };
  if (!(done & kRegion) && once(kRegion, LearnRegion(response, error))) {
    return true;
  }
  if (response.status != 400 && response.status != 403) return false;
  if (!(done & kClock) && once(kClock, LearnClock(response, error))) {
    return true;
  }
  if (!(done & kToken) && once(kToken, RenewToken(error, response.status))) {
    return true;
  }
  return !(done & kTimeout) && once(kTimeout, error.code == "RequestTimeout");
}

bool S3Connection::LearnRegion(const HttpResponse& response,
                               const S3Error& error) {
  std::string told;
  if (const auto header = FindHeader(response.headers, "x-amz-bucket-region")) {
    told = std::string(*header);
  } else if (error.code == "AuthorizationHeaderMalformed") {
    told = error.region;
  }
  const bool is_plain =
      !told.empty() && told.size() <= 64 &&
      told.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_") ==
          std::string::npos;
  const std::lock_guard lock(mutex_);
  if (!is_plain || told == region_) return false;
  region_ = std::move(told);
  return true;
}

bool S3Connection::LearnClock(const HttpResponse& response,
                              const S3Error& error) {
  // Answers to HEAD have no error code, so only the times are compared.
  if (!error.code.empty() && error.code != "RequestTimeTooSkewed" &&
      error.code != "RequestExpired") {
    return false;
  }
  const auto server_ns = TimeHeaderNs(response.headers, "date");
  if (!server_ns) return false;
  const int64_t offset_ns = *server_ns - clock_();
  if (std::llabs(offset_ns - clock_offset_ns_) < kSkewNsMin) return false;
  clock_offset_ns_ = offset_ns;
  return true;
}

bool S3Connection::RenewToken(const S3Error& error, int status) {
  const auto current = credentials_.Current();
  if (current == nullptr || current->keys.session_token.empty()) return false;
  const bool is_expired = error.code == "ExpiredToken" ||
                          error.code == "TokenRefreshRequired" ||
                          // Answers to HEAD have no error code.
                          (error.code.empty() && status == 400);
  if (!is_expired) return false;
  const auto renewed = credentials_.Renew(current);
  return renewed.ok() &&
         (*renewed)->keys.session_token != current->keys.session_token;
}

Status S3Connection::Failure(const S3Request& request,
                             const HttpResponse& response) const {
  return Failure(request, response.status, ErrorOfResponse(response));
}

Status S3Connection::Failure(const S3Request& request, int status,
                             const S3Error& error) const {
  const auto credentials = credentials_.Current();
  const std::string asked_region = region();
  return S3Failure({request.action, UrlOf(request.key), credentials.get(),
                    EndpointUrl(settings_, asked_region), asked_region},
                   status, error);
}

}  // namespace holdfast
