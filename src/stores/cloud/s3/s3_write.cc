#include "stores/cloud/s3/s3_write.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "ground/base/sha256.h"
#include "ground/base/status_macros.h"
#include "stores/cloud/s3/s3_read.h"
#include "stores/cloud/s3/s3_xml.h"

namespace holdfast {
namespace {

constexpr char kWriteIdHeader[] = "x-amz-meta-holdfast-write";
// The number of attempts that may conflict with other writes before the caller
// gets an error.
constexpr int kConflictAttemptMax = 4;

Result<std::string> VersionOfWrite(S3Connection& connection,
                                   const S3Request& request,
                                   const HttpResponse& response) {
  if (const auto etag = FindHeader(response.headers, "etag")) {
    return UnquoteETag(*etag);
  }
  HF_ASSIGN_OR_RETURN(const ObjectEntry entry,
                      HeadObject(connection, request.key));
  return entry.version;
}

}  // namespace

void AddWriteId(const std::string& id, HttpHeaders& headers) {
  headers.emplace_back(kWriteIdHeader, id);
}

void AddCondition(const Condition& condition, HttpHeaders& headers) {
  switch (condition.kind) {
    case Condition::Kind::kNone:
      return;
    case Condition::Kind::kAbsent:
      headers.emplace_back("If-None-Match", "*");
      return;
    case Condition::Kind::kVersion:
      headers.emplace_back("If-Match", condition.version);
      return;
  }
}

bool IsWriteConflict(int status, const S3Error& error) {
  return status == 409 && (error.code == "ConditionalRequestConflict" ||
                           error.code == "OperationAborted");
}

bool IsFailedCondition(const Condition& condition, int status,
                       const S3Error& error) {
  if (condition.kind == Condition::Kind::kNone) return false;
  if (status == 412 || IsWriteConflict(status, error)) return true;
  return condition.kind == Condition::Kind::kVersion && status == 404 &&
         error.code != "NoSuchBucket" && error.code != "NoSuchUpload";
}

Status FailedCondition(const std::string& url, const Condition& condition) {
  if (condition.kind == Condition::Kind::kAbsent) {
    return FailedPreconditionError(url + ": the object exists already");
  }
  return FailedPreconditionError(url + ": the object is not version " +
                                 condition.version +
                                 " any more, or does not exist");
}

std::optional<std::string> FindOwnWrite(S3Connection& connection,
                                        std::string_view key,
                                        const std::string& id) {
  const S3Request request("looking for the object just written", "HEAD", key);
  const auto response = connection.Send(request);
  if (!response.ok() || response->status != 200) return std::nullopt;
  const auto found = FindHeader(response->headers, kWriteIdHeader);
  const auto etag = FindHeader(response->headers, "etag");
  if (!found || *found != id || !etag) return std::nullopt;
  return UnquoteETag(*etag);
}

Status CheckCondition(S3Connection& connection, std::string_view key,
                      const Condition& condition) {
  if (condition.kind == Condition::Kind::kNone) return {};
  const auto entry = HeadObject(connection, key);
  const bool is_absent =
      !entry.ok() && entry.status().code() == StatusCode::kNotFound;
  if (!entry.ok() && !is_absent) return entry.status();
  const bool holds = condition.kind == Condition::Kind::kAbsent
                         ? is_absent
                         : !is_absent && entry->version == condition.version;
  return holds ? Status() : FailedCondition(connection.UrlOf(key), condition);
}

Result<std::string> PutObject(S3Connection& connection, std::string_view key,
                              std::span<const std::string_view> pieces,
                              const Condition& condition) {
  S3Request request("writing", "PUT", key);
  request.headers = {{"Content-Type", "application/octet-stream"}};
  request.body.assign(pieces.begin(), pieces.end());
  const bool is_conditional = condition.kind != Condition::Kind::kNone;
  const std::string write_id = is_conditional ? RandomHex32() : "";
  if (is_conditional) {
    AddCondition(condition, request.headers);
    AddWriteId(write_id, request.headers);
  }
  for (int attempt = 0;; ++attempt) {
    HF_ASSIGN_OR_RETURN(const HttpResponse response, connection.Send(request));
    if (response.status == 200 || response.status == 201) {
      return VersionOfWrite(connection, request, response);
    }
    const S3Error error = ErrorOfResponse(response);
    if (!IsFailedCondition(condition, response.status, error)) {
      return connection.Failure(request, response);
    }
    const bool was_sent_before = attempt > 0 || response.attempt_count > 1;
    if (was_sent_before) {
      const auto own = FindOwnWrite(connection, key, write_id);
      if (own) return *own;
    }
    if (!IsWriteConflict(response.status, error) ||
        attempt + 1 == kConflictAttemptMax) {
      return FailedCondition(connection.UrlOf(key), condition);
    }
    WaitBeforeAttempt(attempt);
  }
}

Status DeleteObject(S3Connection& connection, std::string_view key,
                    const Condition& condition) {
  if (condition.kind == Condition::Kind::kAbsent) {
    return InvalidArgumentError(connection.UrlOf(key) +
                                ": deleting on condition that it is absent");
  }
  // Ceph ignores If-Match here, so the condition is checked first.
  HF_RETURN_IF_ERROR(CheckCondition(connection, key, condition));
  S3Request request("deleting", "DELETE", key);
  AddCondition(condition, request.headers);
  auto response = connection.Send(request);
  const bool knows_no_condition =
      response.ok() && response->status == 501 && !request.headers.empty();
  if (knows_no_condition) {
    request.headers.clear();
    response = connection.Send(request);
  }
  return JudgeDelete(connection, request, response, condition);
}

Status JudgeDelete(const S3Connection& connection, const S3Request& request,
                   const Result<HttpResponse>& response,
                   const Condition& condition) {
  if (!response.ok()) return response.status();
  if (response->status >= 200 && response->status < 300) return {};
  const S3Error error = ErrorOfResponse(*response);
  const bool is_gone = response->status == 404 && error.code != "NoSuchBucket";
  // The object is missing, as wanted, or the answer to our first attempt was
  // lost.
  if (is_gone && (condition.kind == Condition::Kind::kNone ||
                  response->attempt_count > 1)) {
    return {};
  }
  if (IsFailedCondition(condition, response->status, error)) {
    return FailedCondition(connection.UrlOf(request.key), condition);
  }
  return connection.Failure(request, *response);
}

bool IsPassingError(const S3Error& error) {
  return error.code == "InternalError" || error.code == "SlowDown" ||
         error.code == "ServiceUnavailable" || error.code == "RequestTimeout";
}

void WaitBeforeAttempt(int attempt) {
  std::random_device random;
  const int limit_ms = 100 << std::min(attempt, 6);
  std::this_thread::sleep_for(
      std::chrono::milliseconds(limit_ms / 2 + random() % limit_ms));
}

}  // namespace holdfast
