#include "stores/cloud/s3/s3_copy.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ground/base/status_macros.h"
#include "stores/cloud/s3/s3_read.h"
#include "stores/cloud/s3/s3_upload.h"
#include "stores/cloud/s3/s3_write.h"
#include "stores/cloud/s3/s3_xml.h"
#include "stores/http/url.h"

namespace holdfast {
namespace {

constexpr uint64_t kCopiedPartBytes = 1 << 30;  // 5120 parts at most
constexpr size_t kPartsAtOnceMax = 16;
constexpr int kCopyAttemptMax = 5;
// The server may copy 5 GiB before it answers.
constexpr std::chrono::minutes kCopyDeadline{60};

bool IsTooLargeToCopy(const HttpResponse& response, const S3Error& error) {
  return response.status == 413 || error.code == "EntityTooLarge" ||
         error.code == "InvalidRequest";
}

// Checks the version of the source. Not every server does so, and a server that
// does gives the same answer as for a failed condition on the target.
Status CheckSourceVersion(S3Connection& connection, std::string_view source,
                          const std::string& version) {
  if (version.empty()) return Status();
  HF_ASSIGN_OR_RETURN(const ObjectEntry entry, HeadObject(connection, source));
  if (entry.version == version) return Status();
  return DataLossError(connection.UrlOf(source) + ": copying: it has version " +
                       entry.version + ", want " + version);
}

}  // namespace

Result<std::string> CopyObject(std::shared_ptr<S3Connection> connection,
                               std::string_view source, std::string_view target,
                               const Condition& condition,
                               const std::string& source_version) {
  HF_RETURN_IF_ERROR(CheckCondition(*connection, target, condition));
  S3Request request("copying", "PUT", target);
  request.deadline = kCopyDeadline;
  HttpHeaders headers = {
      {"x-amz-copy-source",
       '/' + connection->settings().bucket + '/' + EscapePath(source)}};
  if (!source_version.empty()) {
    headers.emplace_back("x-amz-copy-source-if-match", source_version);
  }
  Condition sent = condition;
  for (int attempt = 0;; ++attempt) {
    request.headers = headers;
    AddCondition(sent, request.headers);
    HF_ASSIGN_OR_RETURN(const HttpResponse response, connection->Send(request));
    const std::string_view body = response.body.view();
    if (response.status == 200 && !IsErrorDocument(body)) {
      HF_RETURN_IF_ERROR(
          CheckSourceVersion(*connection, source, source_version));
      auto etag = ParseResultETag(body);
      if (etag.ok()) return etag;
      HF_ASSIGN_OR_RETURN(const ObjectEntry entry,
                          HeadObject(*connection, target));
      return entry.version;
    }
    const S3Error error = ErrorOfResponse(response);
    if (response.status == 501 && sent.kind != Condition::Kind::kNone) {
      sent = Condition::None();  // already checked above
      continue;
    }
    const bool is_passing = response.status == 200 && IsPassingError(error);
    if (is_passing && attempt + 1 < kCopyAttemptMax) {
      WaitBeforeAttempt(attempt);
      continue;
    }
    if (IsTooLargeToCopy(response, error)) {
      // These errors may mean "too large" or something else, so the size
      // decides.
      HF_ASSIGN_OR_RETURN(const ObjectEntry entry,
                          HeadObject(*connection, source));
      if (entry.byte_count > kCopiedPartBytes) {
        HF_RETURN_IF_ERROR(
            CheckSourceVersion(*connection, source, source_version));
        return CopyObjectInParts(connection, entry, target, condition,
                                 kCopiedPartBytes);
      }
    }
    if (response.status == 404 && error.code != "NoSuchBucket") {
      return NotFoundError(connection->UrlOf(source) +
                           ": copying: no such object");
    }
    if (response.status == 412) {
      HF_RETURN_IF_ERROR(
          CheckSourceVersion(*connection, source, source_version));
    }
    if (IsFailedCondition(sent, response.status, error)) {
      return FailedCondition(connection->UrlOf(target), condition);
    }
    return connection->Failure(request, response.status, error);
  }
}

Result<std::string> CopyObjectInParts(std::shared_ptr<S3Connection> connection,
                                      const ObjectEntry& source,
                                      std::string_view target,
                                      const Condition& condition,
                                      uint64_t part_bytes) {
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<S3Upload> upload,
                      S3Upload::Start(connection, target));
  // `parts` has only as many parts as are sent concurrently, because the size
  // comes from the server and may be wrong.
  std::vector<S3Upload::CopiedPart> parts;
  for (uint64_t offset = 0, index = 0; offset < source.byte_count; ++index) {
    const uint64_t byte_count =
        std::min(part_bytes, source.byte_count - offset);
    parts.push_back({index, offset, byte_count});
    offset += byte_count;
    if (parts.size() < kPartsAtOnceMax && offset < source.byte_count) continue;
    HF_RETURN_IF_ERROR(upload->CopyParts(source.key, source.version, parts));
    parts.clear();
  }
  return upload->Finish(condition);
}

}  // namespace holdfast
