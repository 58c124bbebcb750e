#include "stores/cloud/s3/s3_upload.h"

#include <utility>

#include "ground/base/sha256.h"
#include "ground/base/status_macros.h"
#include "stores/cloud/s3/s3_read.h"
#include "stores/cloud/s3/s3_write.h"
#include "stores/cloud/s3/s3_xml.h"
#include "stores/http/url.h"

namespace holdfast {
namespace {

constexpr uint64_t kEqualPartCount = 1000;
constexpr uint64_t kPartCountAStep = 120;
constexpr int kCompleteAttemptMax = 5;
// The server may assemble 5 TiB, or copy a part, before it answers.
constexpr std::chrono::minutes kLongDeadline{60};
// An abort has a short deadline, because a destructor waits for it.
constexpr std::chrono::seconds kAbortDeadline{30};

}  // namespace

uint64_t S3PartBytes(uint64_t index) {
  if (index < kEqualPartCount) return kS3PartBytesMin;
  const uint64_t step = (index - kEqualPartCount) / kPartCountAStep;
  return kS3PartBytesMin * (2 + step);
}

S3Upload::S3Upload(std::shared_ptr<S3Connection> connection,
                   std::string_view key)
    : connection_(std::move(connection)), key_(key), write_id_(RandomHex32()) {}

S3Upload::~S3Upload() { Abort(); }

Result<std::unique_ptr<S3Upload>> S3Upload::Start(
    std::shared_ptr<S3Connection> connection, std::string_view key) {
  std::unique_ptr<S3Upload> upload(new S3Upload(std::move(connection), key));
  S3Request request("beginning an upload", "POST", key);
  request.query = {{"uploads", ""}};
  request.headers = {{"Content-Type", "application/octet-stream"}};
  AddWriteId(upload->write_id_, request.headers);
  S3Connection& sender = *upload->connection_;
  HF_ASSIGN_OR_RETURN(upload->upload_id_,
                      sender.Ask(request, sender.UrlOf(key), ParseUploadId));
  return upload;
}

S3Request S3Upload::PartRequest(std::string_view action, uint64_t index) const {
  S3Request request(action, "PUT", key_);
  request.query = {{"partNumber", std::to_string(index + 1)},
                   {"uploadId", upload_id_}};
  return request;
}

Status S3Upload::PartFailure(const S3Request& request,
                             const HttpResponse& response) {
  const S3Error error = ErrorOfResponse(response);
  if (error.code == "NoSuchUpload") {
    return FailedPreconditionError(connection_->UrlOf(key_) +
                                   ": another process has aborted its upload");
  }
  return connection_->Failure(request, response.status, error);
}

Status S3Upload::Part(uint64_t index, std::span<const std::string_view> pieces,
                      bool) {
  if (index >= kS3PartCountMax) {
    return ResourceExhaustedError(connection_->UrlOf(key_) +
                                  ": longer than 5 TiB");
  }
  S3Request request = PartRequest("writing a part", index);
  request.headers = {{"Content-Type", "application/octet-stream"}};
  request.body.assign(pieces.begin(), pieces.end());
  HF_ASSIGN_OR_RETURN(const HttpResponse response, connection_->Send(request));
  if (response.status != 200) return PartFailure(request, response);
  const auto etag = FindHeader(response.headers, "etag");
  if (!etag) {
    return DataLossError(connection_->UrlOf(key_) +
                         ": the server took a part and gave no ETag");
  }
  const std::lock_guard lock(mutex_);
  etags_[index] = UnquoteETag(*etag);
  return {};
}

Status S3Upload::CopyParts(std::string_view source,
                           const std::string& source_version,
                           std::span<const CopiedPart> parts) {
  const std::string from =
      '/' + connection_->settings().bucket + '/' + EscapePath(source);
  std::vector<S3Request> requests;
  for (const CopiedPart& part : parts) {
    S3Request request = PartRequest("copying a part", part.index);
    request.deadline = kLongDeadline;
    const uint64_t last = part.offset + part.byte_count - 1;
    request.headers = {
        {"x-amz-copy-source", from},
        {"x-amz-copy-source-range",
         "bytes=" + std::to_string(part.offset) + '-' + std::to_string(last)},
        {"x-amz-copy-source-if-match", source_version}};
    requests.push_back(std::move(request));
  }
  const auto answers = connection_->SendAll(requests);
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].ok()) return answers[i].status();
    const std::string_view xml = answers[i]->body.view();
    if (answers[i]->status != 200 || IsErrorDocument(xml)) {
      return PartFailure(requests[i], *answers[i]);
    }
    auto etag = ParseResultETag(xml);
    // Ceph's answer cannot be parsed, but the list of parts has the ETag.
    if (!etag.ok()) etag = ListedETag(static_cast<int>(parts[i].index + 1));
    HF_RETURN_IF_ERROR(etag.status());
    const std::lock_guard lock(mutex_);
    etags_[parts[i].index] = *etag;
  }
  return {};
}

Result<std::string> S3Upload::ListedETag(int part_number) {
  S3Request request("listing its parts", "GET", key_);
  request.query = {{"max-parts", "1"},
                   {"part-number-marker", std::to_string(part_number - 1)},
                   {"uploadId", upload_id_}};
  HF_ASSIGN_OR_RETURN(
      const PartsPage page,
      connection_->Ask(request, connection_->UrlOf(key_), ParsePartsPage));
  for (const auto& [number, etag] : page.parts) {
    if (number == part_number && !etag.empty()) return etag;
  }
  return DataLossError(connection_->UrlOf(key_) + ": part " +
                       std::to_string(part_number) +
                       " was copied and is not listed");
}

Result<std::vector<std::string>> S3Upload::PartETags() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> etags;
  for (const auto& [index, etag] : etags_) {
    if (index != etags.size()) {
      return FailedPreconditionError(connection_->UrlOf(key_) + ": part " +
                                     std::to_string(etags.size()) +
                                     " of its upload was not written");
    }
    etags.push_back(etag);
  }
  return etags;
}

Result<std::string> S3Upload::Finish(const Condition& condition) {
  if (is_over_) {
    return FailedPreconditionError(
        connection_->UrlOf(key_) +
        ": the upload was already finished or aborted");
  }
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> etags, PartETags());
  if (etags.empty()) {  // an upload needs at least one part
    Abort();
    return PutObject(*connection_, key_, {}, condition);
  }
  HF_RETURN_IF_ERROR(CheckCondition(*connection_, key_, condition));
  auto version = Complete(etags, condition);
  if (version.ok()) is_over_ = true;
  return version;
}

Result<std::string> S3Upload::Complete(const std::vector<std::string>& etags,
                                       const Condition& condition) {
  const std::string xml = CompleteXml(etags);
  S3Request request("finishing an upload", "POST", key_);
  request.query = {{"uploadId", upload_id_}};
  request.body = {xml};
  request.deadline = kLongDeadline;
  Condition sent = condition;
  bool was_sent_before = false;
  for (int attempt = 0;; ++attempt) {
    request.headers = {{"Content-Type", "application/xml"}};
    AddCondition(sent, request.headers);
    HF_ASSIGN_OR_RETURN(const HttpResponse response,
                        connection_->Send(request));
    const std::string_view body = response.body.view();
    if (response.status == 200 && !IsErrorDocument(body)) {
      auto etag = ParseResultETag(body);
      if (etag.ok()) return etag;
      HF_ASSIGN_OR_RETURN(const ObjectEntry entry,
                          HeadObject(*connection_, key_));
      return entry.version;
    }
    was_sent_before |= attempt > 0 || response.attempt_count > 1;
    const S3Error error = ErrorOfResponse(response);
    // If a previous answer was lost, the upload no longer exists because it was
    // completed.
    const bool is_gone = error.code == "NoSuchUpload" || response.status == 404;
    const bool has_failed = IsFailedCondition(sent, response.status, error);
    if (was_sent_before && (is_gone || has_failed)) {
      const auto own = FindOwnWrite(*connection_, key_, write_id_);
      if (own) return *own;
    }
    const bool has_attempts = attempt + 1 < kCompleteAttemptMax;
    if (response.status == 501 && sent.kind != Condition::Kind::kNone) {
      sent = Condition::None();  // already checked by Finish
    } else if (has_attempts &&
               (IsWriteConflict(response.status, error) ||
                (response.status == 200 && IsPassingError(error)))) {
      WaitBeforeAttempt(attempt);
    } else if (has_failed && error.code != "NoSuchUpload") {
      return FailedCondition(connection_->UrlOf(key_), condition);
    } else {
      return PartFailure(request, response);
    }
  }
}

void S3Upload::Abort() {
  if (is_over_ || upload_id_.empty()) return;
  is_over_ = true;
  // If this fails, ListUploads still finds the upload.
  (void)AbortS3Upload(*connection_, key_, upload_id_);
}

Status AbortS3Upload(S3Connection& connection, const std::string& key,
                     const std::string& upload_id) {
  S3Request request("aborting an upload", "DELETE", key);
  request.query = {{"uploadId", upload_id}};
  request.deadline = kAbortDeadline;
  return JudgeDelete(connection, request, connection.Send(request), {});
}

}  // namespace holdfast
