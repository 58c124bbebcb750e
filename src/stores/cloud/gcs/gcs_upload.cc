#include "stores/cloud/gcs/gcs_upload.h"

#include <algorithm>

#include "ground/base/crc32c.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "stores/cloud/gcs/gcs_read.h"
#include "stores/cloud/gcs/gcs_write.h"

namespace holdfast {
namespace {

constexpr int kIdleRoundCountMax = 4;  // without a byte of progress

// Returns the bytes after the first `skip` bytes.
std::vector<std::string_view> PiecesFrom(
    std::span<const std::string_view> pieces, uint64_t skip) {
  std::vector<std::string_view> rest;
  for (const std::string_view piece : pieces) {
    if (skip >= piece.size()) {
      skip -= piece.size();
      continue;
    }
    rest.push_back(piece.substr(skip));
    skip = 0;
  }
  return rest;
}

std::string TotalText(std::optional<uint64_t> total) {
  return total ? std::to_string(*total) : "*";
}

// Parses the number of persisted bytes from "bytes=0-262143"; nullopt for any
// other text.
std::optional<uint64_t> PersistedBytes(std::string_view text) {
  for (const std::string_view start : {"bytes=0-", "bytes 0-", "0-"}) {
    if (!text.starts_with(start)) continue;
    const auto last = ParseNumber<uint64_t>(text.substr(start.size()));
    if (!last || *last >= (uint64_t{1} << 62)) return std::nullopt;
    return *last + 1;
  }
  return std::nullopt;
}

}  // namespace

struct GcsUpload::Step {
  uint64_t persisted = 0;
  std::optional<GcsObject> object;
};

GcsUpload::GcsUpload(std::shared_ptr<GcsApi> api, std::string key,
                     uint64_t part_bytes)
    : api_(std::move(api)),
      key_(std::move(key)),
      part_bytes_(part_bytes),
      crc_(Crc32c("")) {}

GcsUpload::~GcsUpload() { Abort(); }

GcsAction GcsUpload::Action() const {
  return {"write", key_,
          "storage.objects.create (and storage.objects.delete, "
          "to replace one)"};
}

Status GcsUpload::Start() {
  HF_RETURN_IF_ERROR(api_->Begin());
  HttpRequest request = GcsApi::Request(
      "POST", api_->Url("/upload" + api_->ObjectsPath(),
                        {{"uploadType", "resumable"}, {"name", key_}}));
  request.headers = {{"X-Upload-Content-Type", "application/octet-stream"}};
  HF_ASSIGN_OR_RETURN(const HttpResponse answer,
                      api_->Send(std::move(request), Action()));
  if (answer.status != 200 && answer.status != 201) {
    return api_->Error(Action(), answer);
  }
  const auto location = FindHeader(answer.headers, "location");
  const bool is_plain = api_->endpoint().starts_with("http://");
  if (!location || !(location->starts_with("https://") ||
                     (is_plain && location->starts_with("http://")))) {
    return DataLossError("write " + api_->UrlOf(key_) +
                         ": the server names no address to upload to");
  }
  session_url_ = *location;
  return Status();
}

Status GcsUpload::Part(uint64_t index, std::span<const std::string_view> pieces,
                       bool is_last) {
  if (is_over_ || has_last_part_ || index != next_index_) {
    return InvalidArgumentError(
        "write " + api_->UrlOf(key_) + ": part " + std::to_string(index) +
        " is not the next one (want " + std::to_string(next_index_) + ")");
  }
  const uint64_t byte_count = TotalBytes(pieces);
  if (is_last ? byte_count > part_bytes_ : byte_count != part_bytes_) {
    return InvalidArgumentError(
        "write " + api_->UrlOf(key_) + ": part " + std::to_string(index) +
        " has a wrong size (got " + std::to_string(byte_count) + ", want " +
        std::to_string(part_bytes_) + ")");
  }
  ++next_index_;
  for (const std::string_view piece : pieces) crc_ = ExtendCrc32c(crc_, piece);
  if (is_last) {
    // The last part waits for Finish. The request that sends it also ends the
    // upload and states its size.
    last_part_.reserve(byte_count);
    for (const std::string_view piece : pieces) last_part_ += piece;
    has_last_part_ = true;
    return Status();
  }
  Status status = session_url_.empty() ? Start() : Status();
  if (status.ok()) status = SendChunk(pieces, /*is_last=*/false);
  if (!status.ok()) Abort();
  return status;
}

Status GcsUpload::CheckCondition(const Condition& condition) const {
  if (condition.kind == Condition::Kind::kNone) return Status();
  const auto object = GcsHead(*api_, key_);
  if (!object.ok() && object.status().code() != StatusCode::kNotFound) {
    return object.status();
  }
  const std::string version = object.ok() ? object->entry.version : "";
  const bool holds = condition.kind == Condition::Kind::kAbsent
                         ? !object.ok()
                         : version == condition.version;
  if (holds) return Status();
  return FailedPreconditionError("write " + api_->UrlOf(key_) +
                                 (object.ok()
                                      ? ": generation " + version + " is there"
                                      : ": it no longer exists"));
}

Result<std::string> GcsUpload::Finish(const Condition& condition) {
  if (is_over_ || !has_last_part_) {
    return FailedPreconditionError("write " + api_->UrlOf(key_) +
                                   ": the upload is incomplete");
  }
  const std::string_view last = last_part_;
  // If everything fits into one part, it is a single PUT, whose condition the
  // server checks.
  if (session_url_.empty()) {
    is_over_ = true;
    return GcsPut(*api_, key_, {&last, 1}, condition);
  }
  Status status = CheckCondition(condition);
  if (status.ok()) status = SendChunk({&last, 1}, /*is_last=*/true);
  if (!status.ok()) {
    Abort();
    return status;
  }
  is_over_ = true;
  HF_RETURN_IF_ERROR(CheckStored(*api_, key_, object_->entry.byte_count,
                                 object_->crc32c, sent_bytes_, crc_));
  return object_->entry.version;
}

void GcsUpload::Abort() {
  if (is_over_ || session_url_.empty()) {
    is_over_ = true;
    return;
  }
  is_over_ = true;
  HttpRequest request = GcsApi::Request("DELETE", session_url_);
  request.deadline = std::chrono::seconds(10);
  // A failure does not matter: the server drops the session after a week.
  (void)api_->Send(std::move(request), Action());
}

Result<GcsUpload::Step> GcsUpload::StepOf(const HttpResponse& answer) const {
  Step step;
  if (answer.status == 200 || answer.status == 201) {
    HF_ASSIGN_OR_RETURN(step.object,
                        api_->Read(answer, Action(), ParseGcsObject));
    return step;
  }
  if (answer.status == 404 || answer.status == 410) {
    return UnavailableError("write " + api_->UrlOf(key_) +
                            ": the server has forgotten the upload (status " +
                            std::to_string(answer.status) + ")");
  }
  if (answer.status != 308) return api_->Error(Action(), answer);
  const auto range = FindHeader(answer.headers, "range");
  if (!range) return step;
  const auto persisted = PersistedBytes(*range);
  if (!persisted) {
    return DataLossError("write " + api_->UrlOf(key_) +
                         ": the server does not say how much it has");
  }
  step.persisted = *persisted;
  return step;
}

Result<GcsUpload::Step> GcsUpload::SendFrom(
    uint64_t at, std::span<const std::string_view> pieces,
    std::optional<uint64_t> total) {
  HttpRequest request = GcsApi::Request("PUT", session_url_);
  request.body = PiecesFrom(pieces, at - sent_bytes_);
  const uint64_t byte_count = TotalBytes(request.body);
  request.headers = {
      {"Content-Range",
       (byte_count == 0 ? "bytes *"
                        : "bytes " + std::to_string(at) + "-" +
                              std::to_string(at + byte_count - 1)) +
           "/" + TotalText(total)}};
  HF_ASSIGN_OR_RETURN(const HttpResponse answer,
                      api_->Send(std::move(request), Action()));
  return StepOf(answer);
}

Result<GcsUpload::Step> GcsUpload::Ask(std::optional<uint64_t> total) {
  return SendFrom(sent_bytes_, {}, total);
}

Status GcsUpload::SendChunk(std::span<const std::string_view> pieces,
                            bool is_last) {
  const uint64_t begin = sent_bytes_;
  const uint64_t end = begin + TotalBytes(pieces);
  const auto total = is_last ? std::optional<uint64_t>(end) : std::nullopt;
  uint64_t at = begin;
  for (int idle_count = 0; idle_count < kIdleRoundCountMax;) {
    auto step = SendFrom(at, pieces, total);
    // The bytes may have arrived although the answer was lost.
    if (step.status().code() == StatusCode::kUnavailable) step = Ask(total);
    if (!step.ok()) return step.status();
    if (step->object && is_last) {
      object_ = std::move(step->object);
      sent_bytes_ = end;
      return Status();
    }
    if (step->object || step->persisted > end || step->persisted < begin) {
      return DataLossError(
          "write " + api_->UrlOf(key_) +
          ": the server lost its place in the upload (it has " +
          std::to_string(step->persisted) + " bytes, want " +
          std::to_string(begin) + " to " + std::to_string(end) + ")");
    }
    if (step->persisted == end && !is_last) {
      sent_bytes_ = end;
      return Status();
    }
    // Chunks begin at multiples of the unit. The server ignores bytes that it
    // already has.
    const uint64_t next =
        step->persisted / kGcsChunkUnitBytes * kGcsChunkUnitBytes;
    idle_count = step->persisted > at ? 0 : idle_count + 1;
    at = step->persisted == end ? end : std::max(next, begin);
  }
  return UnavailableError("write " + api_->UrlOf(key_) +
                          ": the server takes no more bytes of the upload");
}

}  // namespace holdfast
