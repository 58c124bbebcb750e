#include "stores/cloud/s3/s3_read.h"

#include <algorithm>

#include "ground/base/status_macros.h"
#include "stores/cloud/answer_headers.h"
#include "stores/cloud/range_get.h"
#include "stores/cloud/s3/s3_xml.h"

namespace holdfast {
namespace {

// The maximum size of a read without a target.
constexpr uint64_t kReadBytesMax = 64 << 20;
constexpr uint64_t kErrorBytesMax = 64 << 10;

ObjectEntry EntryOfAnswer(std::string_view key, const HttpResponse& answer,
                          uint64_t total_bytes) {
  ObjectEntry entry;
  entry.key = key;
  entry.byte_count = total_bytes;
  entry.version = UnquoteETag(FindHeader(answer.headers, "etag").value_or(""));
  entry.modified_ns = TimeHeaderNs(answer.headers, "last-modified").value_or(0);
  return entry;
}

// Returns why a HEAD request failed. Its answer has only a status; reading one
// byte reveals the reason.
Status WhyNot(S3Connection& connection, const S3Request& head,
              const HttpResponse& answer) {
  S3Request request(head.action, "GET", head.key);
  request.headers = {{"Range", "bytes=0-0"}};
  const auto response = connection.Send(request);
  if (!response.ok() || response->status < 300 || response->status == 416) {
    return connection.Failure(head, answer);
  }
  return connection.Failure(request, *response);
}

class S3Reads final : public RangeServer {
 public:
  explicit S3Reads(S3Connection& connection) : connection_(connection) {}

  std::string UrlOf(std::string_view key) const override {
    return connection_.UrlOf(key);
  }
  Status CheckReadKey(std::string_view) const override { return {}; }
  uint64_t open_bytes() const override { return kReadBytesMax; }
  bool gives_whole_objects() const override { return true; }

  HttpRequest ToHttp(const RangeGet& read) const override {
    HttpRequest http;
    http.body_bytes_max =
        std::clamp(read.byte_count, kErrorBytesMax, kReadBytesMax);
    if (!read.request->version.empty()) {
      http.headers.emplace_back("If-Match", read.request->version);
    }
    return http;
  }

  std::vector<Result<HttpResponse>> SendReads(
      std::span<const RangeGet> reads,
      std::span<HttpRequest> requests) override {
    std::vector<S3Request> sent;
    for (size_t i = 0; i < reads.size(); ++i) {
      sent.push_back(ReadRequest(*reads[i].request));
      static_cast<HttpRequest&>(sent[i]) = std::move(requests[i]);
    }
    auto answers = connection_.SendAll(sent);
    for (size_t i = 0; i < answers.size(); ++i) {
      if (!answers[i].ok() || answers[i]->status != 412) continue;
      // The object has another version, or the server wants ETags in quotes.
      // The read is repeated without the condition, and the ETag of its answer
      // decides.
      std::erase_if(sent[i].headers, [](const auto& header) {
        return header.first == "If-Match";
      });
      answers[i] = connection_.Send(sent[i]);
    }
    return answers;
  }

  Status SendFailure(const GetRequest& request,
                     const Status& status) const override {
    const bool is_open_end =
        request.target.empty() && request.range.byte_count == kToEnd;
    // The client refuses a body only if it is too long.
    if (!is_open_end || status.code() != StatusCode::kDataLoss) return status;
    return ResourceExhaustedError(UrlOf(request.key) +
                                  ": more than 64 MiB requested at once");
  }

  Result<ObjectEntry> HeadOf(std::string_view key) override {
    return HeadObject(connection_, key);
  }

  Result<ObjectEntry> EntryOf(const GetRequest& request,
                              const HttpResponse& answer,
                              uint64_t total_bytes) const override {
    return EntryOfAnswer(request.key, answer, total_bytes);
  }

  Status OtherVersion(const GetRequest& request,
                      const ObjectEntry& object) const override {
    return DataLossError(UrlOf(request.key) +
                         ": the object was changed while it was read: it is "
                         "now version " +
                         object.version + ", want " + request.version);
  }

  Result<GetResult> OtherAnswer(RangeGet& read, HttpResponse& answer) override {
    if (answer.status == 200) {
      return TakeWholeObject(*this, read, answer, StatusCode::kDataLoss);
    }
    return connection_.Failure(ReadRequest(*read.request), answer);
  }

 private:
  static S3Request ReadRequest(const GetRequest& get) {
    return {"reading", "GET", get.key};
  }

  S3Connection& connection_;
};

}  // namespace

Result<ObjectEntry> HeadObject(S3Connection& connection, std::string_view key) {
  const S3Request request("looking at it", "HEAD", key);
  HF_ASSIGN_OR_RETURN(const HttpResponse response, connection.Send(request));
  if (response.status == 200) {
    const auto byte_count = NumberHeader(response.headers, "content-length");
    if (byte_count) return EntryOfAnswer(key, response, *byte_count);
    return DataLossError(connection.UrlOf(key) +
                         ": the answer does not say how large the object is");
  }
  if (response.status == 400 || response.status == 403) {
    return WhyNot(connection, request, response);
  }
  return connection.Failure(request, response);
}

std::vector<Result<GetResult>> GetObjects(S3Connection& connection,
                                          std::span<const GetRequest> requests,
                                          const CancelToken* cancel) {
  S3Reads reads(connection);
  return GetRanges(reads, requests, cancel);
}

}  // namespace holdfast
