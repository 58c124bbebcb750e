#include "stores/cloud/gcs/gcs_read.h"

#include <algorithm>

#include "ground/base/crc32c.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "stores/cloud/answer_headers.h"
#include "stores/cloud/gcs/gcs_write.h"
#include "stores/cloud/range_get.h"

namespace holdfast {
namespace {

constexpr uint64_t kAnswerBytesMax = 1 << 20;  // for JSON and errors

GcsAction ReadAction(std::string_view key) {
  return {"read", key, "storage.objects.get"};
}

// Returns the crc32c in x-goog-hash. There may be one such header or several.
std::string_view HashOf(const HttpHeaders& headers) {
  for (const auto& [name, value] : headers) {
    const size_t at = value.find("crc32c=");
    if (!EqualsInAnyCase(name, "x-goog-hash") || at == std::string::npos)
      continue;
    const std::string_view text = std::string_view(value).substr(at + 7);
    return text.substr(0, text.find(','));
  }
  return "";
}

class GcsReads final : public RangeServer {
 public:
  GcsReads(GcsApi& api, uint64_t get_bytes_max)
      : api_(api), get_bytes_max_(get_bytes_max) {}

  std::string UrlOf(std::string_view key) const override {
    return api_.UrlOf(key);
  }
  Status CheckReadKey(std::string_view key) const override {
    return api_.Context(ReadAction(key), CheckGcsKey(key));
  }
  uint64_t open_bytes() const override { return get_bytes_max_; }

  HttpRequest ToHttp(const RangeGet& read) const override {
    GcsParameters parameters = {{"alt", "media"}};
    if (!read.request->version.empty()) {
      parameters.emplace_back("ifGenerationMatch", read.request->version);
    }
    HttpRequest http;
    http.url = api_.Url(api_.ObjectPath(read.request->key), parameters);
    http.target_status = 206;
    http.body_bytes_max =
        read.target.empty() ? get_bytes_max_ : kAnswerBytesMax;
    return http;
  }

  std::vector<Result<HttpResponse>> SendReads(
      std::span<const RangeGet> /*reads*/,
      std::span<HttpRequest> requests) override {
    return api_.SendAll(requests);
  }
  Status SendFailure(const GetRequest& request,
                     const Status& status) const override {
    return api_.Context(ReadAction(request.key), status);
  }

  Result<ObjectEntry> HeadOf(std::string_view key) override {
    HF_ASSIGN_OR_RETURN(GcsObject object, GcsHead(api_, key));
    return std::move(object.entry);
  }

  Result<ObjectEntry> EntryOf(const GetRequest& request,
                              const HttpResponse& answer,
                              uint64_t total_bytes) const override {
    ObjectEntry entry;
    entry.key = request.key;
    entry.byte_count = total_bytes;
    const auto generation = FindHeader(answer.headers, "x-goog-generation");
    if (!generation || !ParseNumber<uint64_t>(*generation)) {
      return DataLossError(Where(request) + ": the answer names no generation");
    }
    entry.version = *generation;
    entry.modified_ns =
        TimeHeaderNs(answer.headers, "last-modified").value_or(0);
    return entry;
  }

  Status OtherVersion(const GetRequest& request,
                      const ObjectEntry&) const override {
    return Changed(request);
  }

  // Checks the server's hash, which covers the complete object.
  Status CheckBytes(const GetRequest& request, const HttpResponse& answer,
                    std::string_view bytes,
                    uint64_t total_bytes) const override {
    if (bytes.size() != total_bytes) return Status();
    const std::string_view want = HashOf(answer.headers);
    if (want.empty()) return Status();
    const std::string got = GcsCrc32cText(Crc32c(bytes));
    if (got == want) return Status();
    return DataLossError(Where(request) + ": crc32c does not match (got " +
                         got + ", want " + CleanServerText(want, 16) + ")");
  }

  Result<GetResult> OtherAnswer(RangeGet& read, HttpResponse& answer) override {
    const GetRequest& request = *read.request;
    // A 304 means that the object with this generation no longer exists.
    const bool is_gone =
        answer.status == 412 || answer.status == 404 || answer.status == 304;
    if (!request.version.empty() && is_gone) return Changed(request);
    if (answer.status != 200) {
      return api_.Error(ReadAction(request.key), answer);
    }
    const bool is_packed =
        FindHeader(answer.headers, "x-goog-stored-content-encoding")
            .value_or("identity") != "identity";
    return DataLossError(
        Where(request) +
        (is_packed ? ": it is stored with a Content-Encoding, and the server "
                     "unpacks it instead of giving a range"
                   : ": the server ignores ranges (got status 200, want "
                     "206)"));
  }

 private:
  std::string Where(const GetRequest& request) const {
    return "read " + api_.UrlOf(request.key);
  }
  Status Changed(const GetRequest& request) const {
    return DataLossError(Where(request) +
                         ": changed or deleted while being read (generation " +
                         request.version + " no longer exists)");
  }

  GcsApi& api_;
  const uint64_t get_bytes_max_;
};

}  // namespace

Result<GcsObject> GcsHead(GcsApi& api, std::string_view key) {
  HF_RETURN_IF_ERROR(CheckGcsKey(key));
  HF_RETURN_IF_ERROR(api.Begin());
  const GcsAction action = {"look at", key, "storage.objects.get"};
  const std::string url =
      api.Url(api.ObjectPath(key),
              {{"fields", "name,size,generation,updated,crc32c,metadata"}});
  HF_ASSIGN_OR_RETURN(GcsObject object, api.Ask(GcsApi::Request("GET", url),
                                                action, ParseGcsObject));
  if (object.entry.key != key) {
    return DataLossError("look at " + api.UrlOf(key) +
                         ": the answer is of another object");
  }
  return object;
}

std::vector<Result<GetResult>> GcsGet(GcsApi& api,
                                      std::span<const GetRequest> requests,
                                      uint64_t get_bytes_max,
                                      const CancelToken* cancel) {
  const Status begun = api.Begin();
  if (!begun.ok()) {
    return std::vector<Result<GetResult>>(requests.size(), begun);
  }
  GcsReads reads(api, get_bytes_max);
  return GetRanges(reads, requests, cancel);
}

}  // namespace holdfast
