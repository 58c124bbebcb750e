#include "stores/cloud/s3/s3_error.h"

#include <array>
#include <utility>

namespace holdfast {
namespace {

constexpr size_t kServerTextBytesMax = 300;

struct CodeMeaning {
  std::string_view code;
  StatusCode status;
  std::string_view advice;  // "" if the code is clear enough
};

constexpr auto kMeanings = std::to_array<CodeMeaning>({
    {"NoSuchKey", StatusCode::kNotFound, "no such object"},
    {"NoSuchBucket", StatusCode::kNotFound,
     "no such bucket: check its name and the endpoint"},
    {"NoSuchUpload", StatusCode::kNotFound,
     "the upload was finished or aborted"},
    {"AccessDenied", StatusCode::kPermissionDenied,
     "these credentials have no right to this; without the right to list, S3 "
     "answers so for objects that do not exist as well, and some servers so "
     "for a wrong secret key"},
    {"AllAccessDisabled", StatusCode::kPermissionDenied,
     "the bucket is closed to all"},
    {"AccountProblem", StatusCode::kPermissionDenied, ""},
    {"InvalidPayer", StatusCode::kPermissionDenied, ""},
    {"InvalidAccessKeyId", StatusCode::kPermissionDenied,
     "the server does not know this access key: it was deleted, or belongs to "
     "another endpoint, or its session token is missing (AWS_SESSION_TOKEN)"},
    {"InvalidToken", StatusCode::kPermissionDenied,
     "the session token is not one, or belongs to another key"},
    {"ExpiredToken", StatusCode::kPermissionDenied,
     "the session token has expired: get new credentials"},
    {"TokenRefreshRequired", StatusCode::kPermissionDenied,
     "the session token must be renewed"},
    {"SignatureDoesNotMatch", StatusCode::kPermissionDenied,
     "the secret key does not belong to the access key, or a proxy changes "
     "requests on their way"},
    {"RequestTimeTooSkewed", StatusCode::kPermissionDenied,
     "the clock of this machine is wrong: set it"},
    {"RequestExpired", StatusCode::kPermissionDenied,
     "the clock of this machine is wrong: set it"},
    {"PreconditionFailed", StatusCode::kFailedPrecondition, ""},
    {"ConditionalRequestConflict", StatusCode::kFailedPrecondition,
     "another write of the same object intervened"},
    {"PermanentRedirect", StatusCode::kFailedPrecondition,
     "the bucket is at another endpoint: set its region (AWS_REGION)"},
    {"TemporaryRedirect", StatusCode::kUnavailable,
     "the bucket is not yet known everywhere: set its region (AWS_REGION)"},
    {"AuthorizationHeaderMalformed", StatusCode::kFailedPrecondition,
     "the bucket is in another region: set it (AWS_REGION)"},
    {"IllegalLocationConstraintException", StatusCode::kFailedPrecondition,
     "the bucket is in another region: set it (AWS_REGION)"},
    {"InvalidObjectState", StatusCode::kFailedPrecondition,
     "the object is archived: restore it first"},
    {"ObjectLockConfigurationNotFoundError", StatusCode::kFailedPrecondition,
     ""},
    {"InvalidRange", StatusCode::kOutOfRange, "beyond the object's end"},
    {"QuotaExceeded", StatusCode::kResourceExhausted, "the quota is used up"},
    {"EntityTooLarge", StatusCode::kResourceExhausted,
     "larger than the server takes"},
    {"NotImplemented", StatusCode::kUnimplemented,
     "the server does not know this request"},
    {"MethodNotAllowed", StatusCode::kUnimplemented,
     "the server does not allow this request"},
    {"SlowDown", StatusCode::kUnavailable,
     "the server asks for fewer requests, and did so until all attempts were "
     "used up: try again later, or with fewer at once"},
    {"ServiceUnavailable", StatusCode::kUnavailable, "try again later"},
    {"InternalError", StatusCode::kUnavailable, "try again later"},
    {"OperationAborted", StatusCode::kUnavailable,
     "something else is being done to it: try again later"},
    {"RequestTimeout", StatusCode::kUnavailable, "try again later"},
    {"BadDigest", StatusCode::kDataLoss,
     "the body was damaged on its way to the server"},
    {"XAmzContentSHA256Mismatch", StatusCode::kDataLoss,
     "the body was damaged on its way to the server"},
});

CodeMeaning MeaningOfStatus(int status) {
  switch (status) {
    case 401:
    case 403:
      return {"", StatusCode::kPermissionDenied,
              "the server refuses these credentials, or they have no right to "
              "this"};
    case 404:
      return {"", StatusCode::kNotFound, "no such object or bucket"};
    case 301:
    case 307:
      return {"", StatusCode::kFailedPrecondition,
              "the bucket is at another endpoint: set its region (AWS_REGION)"};
    case 408:
    case 429:
      return {"", StatusCode::kUnavailable, "try again later"};
    case 405:
    case 501:
      return {"", StatusCode::kUnimplemented,
              "the server does not know this request"};
    case 409:
    case 412:
      return {"", StatusCode::kFailedPrecondition, ""};
    case 416:
      return {"", StatusCode::kOutOfRange, "beyond the object's end"};
    case 507:
      return {"", StatusCode::kResourceExhausted, "the server is full"};
    default:
      break;
  }
  if (status >= 500) return {"", StatusCode::kUnavailable, "try again later"};
  if (status >= 400) return {"", StatusCode::kInvalidArgument, ""};
  return {"", StatusCode::kDataLoss, "not an answer that S3 gives"};
}

CodeMeaning MeaningOf(int status, std::string_view code) {
  for (const CodeMeaning& meaning : kMeanings) {
    if (meaning.code == code) return meaning;
  }
  if (code.starts_with("KMS.")) {
    return {code, StatusCode::kPermissionDenied,
            "the key that encrypts the object cannot be used"};
  }
  // An unknown error that came with status 200 may be temporary.
  return MeaningOfStatus(status >= 300 || code.empty() ? status : 500);
}

bool Holds(std::string_view text, const std::string& secret) {
  return !secret.empty() && text.find(secret) != std::string_view::npos;
}

// Returns a server's message, made safe to show.
std::string ServerText(std::string_view text,
                       const AwsCredentials* credentials) {
  // Some servers repeat the signed string, or parts of it.
  if (credentials != nullptr &&
      (Holds(text, credentials->keys.secret_access_key) ||
       Holds(text, credentials->keys.session_token) ||
       Holds(text, credentials->keys.access_key_id))) {
    return "";
  }
  std::string clean(text.substr(0, kServerTextBytesMax));
  for (char& c : clean) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return clean;
}

}  // namespace

S3Error ErrorOfResponse(const HttpResponse& response) {
  S3Error error = ParseS3Error(response.body.view());
  if (error.request_id.empty()) {
    const auto id = FindHeader(response.headers, "x-amz-request-id");
    if (id) error.request_id = std::string(*id);
  }
  return error;
}

std::string CredentialsText(const AwsCredentials& credentials) {
  std::string text = credentials.source;
  const std::string tail = credentials.key_id_tail();
  if (!tail.empty()) text += ", key …" + tail;
  return text;
}

Status S3Failure(const S3Attempt& attempt, int status, const S3Error& error) {
  const CodeMeaning meaning = MeaningOf(status, error.code);
  const auto clean = [&](std::string_view text) {
    return ServerText(text, attempt.credentials);
  };
  std::string text = attempt.url + ": " + std::string(attempt.action) + ": ";
  const std::string code = clean(error.code);
  text += code.empty() ? "status " + std::to_string(status)
                       : code + " (status " + std::to_string(status) + ")";
  const std::string words = clean(error.message);
  if (!words.empty() && words != code) text += ": " + words;
  if (!meaning.advice.empty()) text += ": " + std::string(meaning.advice);

  std::string details;
  const auto add = [&](const std::string& detail) {
    if (!details.empty()) details += "; ";
    details += detail;
  };
  if (meaning.status == StatusCode::kPermissionDenied &&
      attempt.credentials != nullptr) {
    add("credentials: " + CredentialsText(*attempt.credentials));
  }
  if (error.code == "NoSuchBucket" || status == 301) {
    add("endpoint " + attempt.endpoint);
  }
  if (!error.region.empty()) {
    add("asked in region " + attempt.region + ", it is in " +
        clean(error.region));
  }
  if (!error.request_id.empty()) {
    add("request id " + clean(error.request_id));
  }
  if (!details.empty()) text += " (" + details + ")";
  return Status(meaning.status, std::move(text));
}

}  // namespace holdfast
