#include "stores/cloud/gcs/gcs_write.h"

#include "ground/base/crc32c.h"
#include "ground/base/sha256.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "ground/json/members.h"
#include "stores/cloud/gcs/gcs_batch.h"
#include "stores/cloud/gcs/gcs_json.h"
#include "stores/cloud/gcs/gcs_read.h"

namespace holdfast {
namespace {

constexpr int kRewriteCallCountMax = 100'000;
constexpr char kOctetStream[] = "application/octet-stream";

GcsAction WriteAction(std::string_view key) {
  return {"write", key,
          "storage.objects.create (and storage.objects.delete, "
          "to replace one)"};
}

GcsAction DeleteAction(std::string_view key) {
  return {"delete", key, "storage.objects.delete"};
}

std::string MetadataJson(std::string_view key, const std::string& write_id) {
  nlohmann::json json = {{"contentType", kOctetStream}};
  if (!key.empty()) json["name"] = std::string(key);
  json["metadata"] = {{std::string(kGcsWriteIdKey), write_id}};
  return JsonLine(json);
}

uint32_t CrcOf(std::span<const std::string_view> pieces) {
  uint32_t crc = Crc32c("");
  for (const std::string_view piece : pieces) crc = ExtendCrc32c(crc, piece);
  return crc;
}

bool MayBeOurs(const HttpResponse& answer, const Condition& condition) {
  // The condition of a write that was sent more than once may have failed
  // because its first attempt succeeded.
  return condition.kind != Condition::Kind::kNone && answer.status == 412 &&
         answer.attempt_count > 1;
}

// Returns the generation if this write made the current object.
std::optional<std::string> FindOurs(GcsApi& api, std::string_view key,
                                    const std::string& write_id) {
  const auto object = GcsHead(api, key);
  if (!object.ok() || object->write_id != write_id) return std::nullopt;
  return object->entry.version;
}

Result<std::string> FinishPut(GcsApi& api, std::string_view key,
                              std::span<const std::string_view> pieces,
                              const HttpResponse& answer) {
  HF_ASSIGN_OR_RETURN(const GcsObject object,
                      api.Read(answer, WriteAction(key), ParseGcsObject));
  HF_RETURN_IF_ERROR(CheckStored(api, key, object.entry.byte_count,
                                 object.crc32c, TotalBytes(pieces),
                                 CrcOf(pieces)));
  return object.entry.version;
}

Result<std::string> PutPlain(GcsApi& api, std::string_view key,
                             std::span<const std::string_view> pieces) {
  HttpRequest request = GcsApi::Request(
      "POST", api.Url("/upload" + api.ObjectsPath(),
                      {{"uploadType", "media"}, {"name", std::string(key)}}));
  request.headers = {{"Content-Type", kOctetStream}};
  request.body.assign(pieces.begin(), pieces.end());
  HF_ASSIGN_OR_RETURN(const HttpResponse answer,
                      api.Send(std::move(request), WriteAction(key)));
  return FinishPut(api, key, pieces, answer);
}

// Writes with a condition: sends the metadata and then the bytes as
// multipart/related.
Result<std::string> PutIf(GcsApi& api, std::string_view key,
                          std::span<const std::string_view> pieces,
                          const Condition& condition) {
  const std::string write_id = RandomHex32();
  const std::string boundary = "holdfast_" + RandomHex32();
  const std::string head = "--" + boundary +
                           "\r\nContent-Type: application/json; "
                           "charset=UTF-8\r\n\r\n" +
                           MetadataJson(key, write_id) + "\r\n--" + boundary +
                           "\r\nContent-Type: " + kOctetStream + "\r\n\r\n";
  const std::string tail = "\r\n--" + boundary + "--\r\n";
  GcsParameters parameters = ConditionParameters(condition);
  parameters.emplace_back("uploadType", "multipart");
  HttpRequest request = GcsApi::Request(
      "POST", api.Url("/upload" + api.ObjectsPath(), parameters));
  request.headers = {
      {"Content-Type", "multipart/related; boundary=" + boundary}};
  request.body.push_back(head);
  request.body.insert(request.body.end(), pieces.begin(), pieces.end());
  request.body.push_back(tail);
  HF_ASSIGN_OR_RETURN(const HttpResponse answer,
                      api.Send(std::move(request), WriteAction(key)));
  if (MayBeOurs(answer, condition)) {
    auto ours = FindOurs(api, key, write_id);
    if (ours) return *std::move(ours);
  }
  return FinishPut(api, key, pieces, answer);
}

// Interprets the answer to a delete request. Without a condition, a missing
// object is ok. With a condition, it is an error, unless our own first attempt,
// whose answer was lost, deleted the object.
Status FinishDelete(GcsApi& api, std::string_view key,
                    const Condition& condition, const HttpResponse& answer) {
  if (answer.status == 200 || answer.status == 204) return Status();
  const bool has_version = condition.kind == Condition::Kind::kVersion;
  if (answer.status == 404 && !has_version) {
    const Status gone = api.Error(DeleteAction(key), answer);
    return gone.message().find("bucket does not exist") == std::string::npos
               ? Status()
               : gone;
  }
  if (has_version && (answer.status == 404 || answer.status == 412)) {
    if (answer.attempt_count > 1 &&
        GcsHead(api, key).status().code() == StatusCode::kNotFound) {
      return Status();
    }
    return FailedPreconditionError("delete " + api.UrlOf(key) +
                                   ": generation " + condition.version +
                                   " no longer exists");
  }
  return api.Error(DeleteAction(key), answer);
}

HttpRequest DeleteRequest(const GcsApi& api, std::string_view key,
                          const Condition& condition) {
  return GcsApi::Request(
      "DELETE", api.Url(api.ObjectPath(key), ConditionParameters(condition)));
}

// Deletes each key with its own request, all concurrently.
Status DeleteOneByOne(GcsApi& api, std::span<const std::string> keys) {
  std::vector<HttpRequest> requests;
  for (const std::string& key : keys) {
    requests.push_back(DeleteRequest(api, key, {}));
  }
  const auto answers = api.SendAll(requests);
  Status first;
  for (size_t i = 0; i < answers.size(); ++i) {
    Status status =
        answers[i].ok()
            ? FinishDelete(api, keys[i], {}, *answers[i])
            : api.Context(DeleteAction(keys[i]), answers[i].status());
    if (first.ok()) first = std::move(status);
  }
  return first;
}

bool IsPassing(int status) {
  return status == 401 || status == 408 || status == 429 || status >= 500;
}

// Interprets the answer to a batch. Adds to `again` the keys that may succeed
// individually.
Status FinishBatch(GcsApi& api, std::span<const std::string> keys,
                   const HttpResponse& answer,
                   std::vector<std::string>& again) {
  // Emulators do not support batches, and some batch answers are malformed.
  const auto parts =
      answer.status == 200
          ? ParseGcsBatch(
                FindHeader(answer.headers, "content-type").value_or(""),
                answer.body.view(), keys.size())
          : Result<std::vector<GcsBatchAnswer>>(
                api.Error(DeleteAction(""), answer));
  if (!parts.ok()) {
    if (answer.status == 401) return parts.status();
    again.insert(again.end(), keys.begin(), keys.end());
    return Status();
  }
  Status first;
  for (size_t i = 0; i < keys.size(); ++i) {
    const GcsBatchAnswer& part = (*parts)[i];
    if (IsPassing(part.status)) {
      again.push_back(keys[i]);
      continue;
    }
    HttpResponse single;
    single.status = part.status;
    single.body = Bytes(std::string(part.body));
    Status status = FinishDelete(api, keys[i], {}, single);
    if (first.ok()) first = std::move(status);
  }
  return first;
}

}  // namespace

GcsParameters ConditionParameters(const Condition& condition) {
  switch (condition.kind) {
    case Condition::Kind::kNone:
      return {};
    case Condition::Kind::kAbsent:
      return {{"ifGenerationMatch", "0"}};
    case Condition::Kind::kVersion:
      return {{"ifGenerationMatch", condition.version}};
  }
  return {};
}

std::string GcsCrc32cText(uint32_t crc) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(crc >> shift);
  }
  return Base64(bytes);
}

Status CheckStored(const GcsApi& api, std::string_view key, uint64_t got_bytes,
                   std::string_view got_crc32c, uint64_t sent_bytes,
                   uint32_t sent_crc32c) {
  const std::string want = GcsCrc32cText(sent_crc32c);
  if (got_bytes == sent_bytes && (got_crc32c.empty() || got_crc32c == want)) {
    return Status();
  }
  return DataLossError("write " + api.UrlOf(key) +
                       ": the server stored something else (got " +
                       std::to_string(got_bytes) + " bytes with crc32c " +
                       CleanServerText(got_crc32c, 16) + ", want " +
                       std::to_string(sent_bytes) + " with " + want + ")");
}

Result<std::string> GcsPut(GcsApi& api, std::string_view key,
                           std::span<const std::string_view> pieces,
                           const Condition& condition) {
  HF_RETURN_IF_ERROR(CheckGcsKey(key));
  HF_RETURN_IF_ERROR(api.Begin());
  return condition.kind == Condition::Kind::kNone
             ? PutPlain(api, key, pieces)
             : PutIf(api, key, pieces, condition);
}

Result<std::string> GcsCopy(GcsApi& api, std::string_view source,
                            std::string_view target, const Condition& condition,
                            const std::string& source_version) {
  HF_RETURN_IF_ERROR(CheckGcsKey(source));
  HF_RETURN_IF_ERROR(CheckGcsKey(target));
  HF_RETURN_IF_ERROR(api.Begin());
  const GcsAction action = {"copy", source,
                            "storage.objects.get and storage.objects.create"};
  const std::string write_id = RandomHex32();
  const bool is_conditional = condition.kind != Condition::Kind::kNone;
  const std::string body = is_conditional ? MetadataJson("", write_id) : "";
  std::string token;
  for (int call = 0; call < kRewriteCallCountMax; ++call) {
    GcsParameters parameters = ConditionParameters(condition);
    if (!source_version.empty()) {
      parameters.emplace_back("ifSourceGenerationMatch", source_version);
    }
    if (!token.empty()) parameters.emplace_back("rewriteToken", token);
    HttpRequest request =
        GcsApi::Request("POST", api.Url(api.ObjectPath(source) + "/rewriteTo" +
                                            api.ObjectPath(target).substr(11),
                                        parameters));
    request.headers = {{"Content-Type", "application/json"}};
    request.body = {body};
    HF_ASSIGN_OR_RETURN(const HttpResponse answer,
                        api.Send(std::move(request), action));
    if (MayBeOurs(answer, condition)) {
      auto ours = FindOurs(api, target, write_id);
      if (ours) return *std::move(ours);
    }
    if (answer.status == 412 && !source_version.empty()) {
      // The answer does not say which condition failed, the source's or the
      // target's.
      HF_ASSIGN_OR_RETURN(const GcsObject now, GcsHead(api, source));
      if (now.entry.version != source_version) {
        return DataLossError("copy " + api.UrlOf(source) +
                             ": it has generation " + now.entry.version +
                             ", want " + source_version);
      }
    }
    HF_ASSIGN_OR_RETURN(const GcsRewrite rewrite,
                        api.Read(answer, action, ParseGcsRewrite));
    if (rewrite.is_done) return rewrite.object.entry.version;
    token = rewrite.token;
  }
  return UnavailableError("copy " + api.UrlOf(source) +
                          ": the server does not come to an end");
}

Status GcsDelete(GcsApi& api, std::string_view key,
                 const Condition& condition) {
  HF_RETURN_IF_ERROR(CheckGcsKey(key));
  HF_RETURN_IF_ERROR(api.Begin());
  HF_ASSIGN_OR_RETURN(
      const HttpResponse answer,
      api.Send(DeleteRequest(api, key, condition), DeleteAction(key)));
  return FinishDelete(api, key, condition, answer);
}

Status GcsDeleteAll(GcsApi& api, std::span<const std::string> keys) {
  for (const std::string& key : keys) HF_RETURN_IF_ERROR(CheckGcsKey(key));
  HF_RETURN_IF_ERROR(api.Begin());
  if (keys.size() <= 1) return DeleteOneByOne(api, keys);
  std::vector<GcsBatchBody> batches;
  for (size_t at = 0; at < keys.size(); at += kGcsBatchCallsMax) {
    std::vector<std::string> paths;
    for (size_t i = at; i < std::min(at + kGcsBatchCallsMax, keys.size());
         ++i) {
      paths.push_back(api.PathWith(api.ObjectPath(keys[i]), {}));
    }
    batches.push_back(MakeDeleteBatch(paths));
  }
  std::vector<HttpRequest> requests;
  for (const GcsBatchBody& batch : batches) {
    HttpRequest request =
        GcsApi::Request("POST", api.endpoint() + "/batch/storage/v1", 16 << 20);
    request.headers = {{"Content-Type", batch.content_type}};
    request.body = {batch.body};
    requests.push_back(std::move(request));
  }
  const auto answers = api.SendAll(requests);
  Status first;
  std::vector<std::string> again;
  for (size_t i = 0; i < answers.size(); ++i) {
    const auto part = keys.subspan(
        i * kGcsBatchCallsMax,
        std::min(kGcsBatchCallsMax, keys.size() - i * kGcsBatchCallsMax));
    Status status = answers[i].ok()
                        ? FinishBatch(api, part, *answers[i], again)
                        : api.Context(DeleteAction(""), answers[i].status());
    if (first.ok()) first = std::move(status);
  }
  Status status = again.empty() ? Status() : DeleteOneByOne(api, again);
  return first.ok() ? status : first;
}

}  // namespace holdfast
