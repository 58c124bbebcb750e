#include "stores/cloud/gcs/gcs_error.h"

#include "stores/cloud/gcs/gcs_json.h"

namespace holdfast {
namespace {

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool IsUserProjectMissing(int status, const GcsRefusal& refusal) {
  return status == 400 && (refusal.reason == "UserProjectMissing" ||
                           Contains(refusal.message, "user project") ||
                           Contains(refusal.message, "requester pays"));
}

bool IsRateLimit(const GcsRefusal& refusal) {
  return refusal.reason == "rateLimitExceeded" ||
         refusal.reason == "userRateLimitExceeded" ||
         refusal.reason == "quotaExceeded";
}

std::string Advice(const GcsCallName& call, int status,
                   const GcsRefusal& refusal) {
  if (IsUserProjectMissing(status, refusal)) {
    return "the bucket's requester pays: name the project to bill (user "
           "project, or GOOGLE_CLOUD_QUOTA_PROJECT)";
  }
  if (status == 401) {
    return "the credentials are missing, wrong or expired (used: " +
           std::string(call.identity) +
           "): set GOOGLE_APPLICATION_CREDENTIALS, or run gcloud auth "
           "application-default login";
  }
  if (status == 403 && !IsRateLimit(refusal)) {
    return "grant " + std::string(call.permission) +
           " (used: " + std::string(call.identity) + ")";
  }
  return "";
}

StatusCode CodeOf(int status, const GcsRefusal& refusal) {
  if (IsUserProjectMissing(status, refusal)) {
    return StatusCode::kPermissionDenied;
  }
  switch (status) {
    case 400:
      return StatusCode::kInvalidArgument;
    case 401:
      return StatusCode::kPermissionDenied;
    case 403:
      return IsRateLimit(refusal) ? StatusCode::kUnavailable
                                  : StatusCode::kPermissionDenied;
    case 404:
    case 410:
      return StatusCode::kNotFound;
    case 304:
    case 412:
      return StatusCode::kFailedPrecondition;
    case 413:
      return StatusCode::kResourceExhausted;
    case 416:
      return StatusCode::kOutOfRange;
    case 408:
    case 409:
    case 429:
      return StatusCode::kUnavailable;
    default:
      break;
  }
  // The protocol has no other answers, unless the server itself fails (5xx).
  return status >= 500 ? StatusCode::kUnavailable : StatusCode::kDataLoss;
}

}  // namespace

Status GcsError(const GcsCallName& call, const HttpResponse& answer) {
  return GcsError(call, answer.status, answer.body.view());
}

Status GcsError(const GcsCallName& call, int http_status,
                std::string_view body) {
  const GcsRefusal refusal = ParseGcsRefusal(body);
  std::string message = std::string(call.action) + " " + std::string(call.url) +
                        ": the server says " + std::to_string(http_status);
  if (!refusal.reason.empty()) message += " " + refusal.reason;
  if (!refusal.message.empty()) message += ": " + refusal.message;
  const std::string advice = Advice(call, http_status, refusal);
  if (!advice.empty()) message += "; " + advice;
  return Status(CodeOf(http_status, refusal), std::move(message));
}

}  // namespace holdfast
