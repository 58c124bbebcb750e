#include "stores/cloud/http_bucket.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ground/base/status_macros.h"
#include "stores/cloud/answer_headers.h"
#include "stores/cloud/content_range.h"
#include "stores/cloud/range_get.h"
#include "stores/cloud/read_only_bucket.h"
#include "stores/http/http_client.h"
#include "stores/http/http_date.h"
#include "stores/http/url.h"

namespace holdfast {
namespace {

constexpr uint64_t kAnswerBytesMax = uint64_t{64} << 20;
constexpr uint64_t kRefusalBytesMax = uint64_t{1} << 16;
// Versions that are not ETags begin with one of these.
constexpr std::string_view kModified = "modified ";
constexpr std::string_view kSizeOnly = "bytes ";

std::string WebVersion(const HttpHeaders& headers, uint64_t total_bytes) {
  const std::string_view etag = FindHeader(headers, "etag").value_or("");
  if (etag.size() > 2 && etag.front() == '"' && etag.back() == '"') {
    return std::string(etag.substr(1, etag.size() - 2));
  }
  const std::string size = std::string(kSizeOnly) + std::to_string(total_bytes);
  const auto modified = FindHeader(headers, "last-modified");
  if (!modified || !ParseHttpDate(*modified)) return size;
  return std::string(kModified) + std::string(*modified) + "; " + size;
}

void AddVersionHeader(std::string_view version, HttpHeaders& headers) {
  // A request cannot have a condition on the size, so the size is compared
  // afterwards.
  if (version.empty() || version.starts_with(kSizeOnly)) return;
  if (version.starts_with(kModified)) {
    version.remove_prefix(kModified.size());
    headers.emplace_back("If-Unmodified-Since",
                         version.substr(0, version.rfind(';')));
    return;
  }
  headers.emplace_back("If-Match", "\"" + std::string(version) + "\"");
}

class HttpBucket final : public ReadOnlyBucket, private RangeServer {
 public:
  HttpBucket(const Url& root, const HttpOptions& options, HttpHeaders headers)
      : ReadOnlyBucket("web servers"),
        origin_(OriginOf(root)),
        path_(root.path),
        query_(root.query),
        headers_(std::move(headers)),
        client_(options) {
    while (path_.ends_with('/')) path_.pop_back();
    traits_.can_write = false;
    traits_.can_list = false;
    traits_.upload_conditions = false;
  }

  const BucketTraits& traits() const override { return traits_; }
  std::string UrlOf(std::string_view key) const override {
    return origin_ + path_ + "/" + EscapePath(key);
  }
  int64_t ServerTimeNs() const override { return clock_.now_ns(); }

  Result<BucketAccess> Access() override {
    BucketAccess access;
    access.endpoint = origin_;
    access.credentials = query_.empty() ? "none" : "the query of the URL";
    return access;
  }

  Result<ObjectEntry> Head(std::string_view key) override;
  std::vector<Result<GetResult>> Get(std::span<const GetRequest> requests,
                                     const CancelToken* cancel) override {
    return GetRanges(*this, requests, cancel);
  }

  Result<ListPage> List(const ListRequest& request) override {
    return UnimplementedError("list " + UrlOf(request.prefix) +
                              ": a web server does not list its files");
  }

 private:
  std::string RequestUrl(std::string_view key) const {
    return UrlOf(key) + (query_.empty() ? "" : "?" + query_);
  }
  Status CheckReadKey(std::string_view key) const override;
  Status StatusError(std::string_view key, int status) const;
  ObjectEntry EntryOf(std::string_view key, const HttpHeaders& headers,
                      uint64_t total_bytes) const;
  Result<ObjectEntry> HeadByRange(std::string_view key);

  uint64_t open_bytes() const override { return kAnswerBytesMax; }
  HttpRequest ToHttp(const RangeGet& read) const override;
  std::vector<Result<HttpResponse>> SendReads(
      std::span<const RangeGet> reads,
      std::span<HttpRequest> requests) override;
  Result<ObjectEntry> HeadOf(std::string_view key) override {
    return Head(key);
  }
  Result<ObjectEntry> EntryOf(const GetRequest& request,
                              const HttpResponse& answer,
                              uint64_t total_bytes) const override {
    return EntryOf(request.key, answer.headers, total_bytes);
  }
  Status OtherVersion(const GetRequest& request,
                      const ObjectEntry& object) const override;
  Result<GetResult> OtherAnswer(RangeGet& read, HttpResponse& answer) override;

  const std::string origin_;
  std::string path_;  // escaped, without a trailing '/'
  const std::string query_;
  const HttpHeaders headers_;
  BucketTraits traits_;
  ServerClock clock_;
  HttpClient client_;
};

Status HttpBucket::CheckReadKey(std::string_view key) const {
  const bool is_good = !key.empty() && key.size() <= 1024 &&
                       key.find('\0') == std::string_view::npos;
  if (is_good) return {};
  return InvalidArgumentError(UrlOf(key) + ": a key has 1 to 1024 bytes");
}

Status HttpBucket::StatusError(std::string_view key, int status) const {
  const std::string where = "read " + UrlOf(key) + ": ";
  const std::string what = "the server answers HTTP " + std::to_string(status);
  switch (status) {
    case 404:
    case 410:
      return NotFoundError(where + "no such file (HTTP " +
                           std::to_string(status) + ")");
    case 401:
    case 403:
      return PermissionDeniedError(
          where + what +
          (query_.empty() ? ""
                          : "; the URL's signature may be wrong or expired"));
    case 412:
      return DataLossError(where + "the file changed while being read");
    default:
      break;
  }
  if (status == 408 || status == 429 || status >= 500) {
    return UnavailableError(where + what);
  }
  return FailedPreconditionError(where + what);
}

ObjectEntry HttpBucket::EntryOf(std::string_view key,
                                const HttpHeaders& headers,
                                uint64_t total_bytes) const {
  ObjectEntry entry;
  entry.key = key;
  entry.byte_count = total_bytes;
  entry.version = WebVersion(headers, total_bytes);
  entry.modified_ns = TimeHeaderNs(headers, "last-modified").value_or(0);
  return entry;
}

Result<ObjectEntry> HttpBucket::Head(std::string_view key) {
  HF_RETURN_IF_ERROR(CheckReadKey(key));
  HttpRequest request;
  request.method = "HEAD";
  request.url = RequestUrl(key);
  request.headers = headers_;
  HF_ASSIGN_OR_RETURN(const HttpResponse answer, client_.Send(request));
  clock_.Note(answer.headers);
  const auto length = NumberHeader(answer.headers, "content-length");
  if (answer.status == 200 && length) {
    return EntryOf(key, answer.headers, *length);
  }
  // A presigned URL is signed only for GET, and some servers do not support
  // HEAD.
  const bool may_know_get = answer.status == 200 || answer.status == 400 ||
                            answer.status == 403 || answer.status == 405 ||
                            answer.status == 501;
  if (may_know_get) return HeadByRange(key);
  return StatusError(key, answer.status);
}

Result<ObjectEntry> HttpBucket::HeadByRange(std::string_view key) {
  char byte = 0;
  HttpRequest request;
  request.url = RequestUrl(key);
  request.headers = headers_;
  request.headers.emplace_back("Range", "bytes=0-0");
  request.target = {&byte, 1};
  request.body_bytes_max = kRefusalBytesMax;
  HF_ASSIGN_OR_RETURN(const HttpResponse answer, client_.Send(request));
  clock_.Note(answer.headers);
  const std::string_view range =
      FindHeader(answer.headers, "content-range").value_or("");
  std::optional<uint64_t> total;
  if (answer.status == 206) {
    const auto parsed = ParseContentRange(range);
    if (parsed) total = parsed->total_bytes;
  } else if (answer.status == 416) {
    total = ParseUnsatisfiedRange(range);
  } else if (answer.status == 200) {
    total = NumberHeader(answer.headers, "content-length");
  } else {
    return StatusError(key, answer.status);
  }
  if (total) return EntryOf(key, answer.headers, *total);
  return FailedPreconditionError("look at " + UrlOf(key) +
                                 ": the server does not say its size");
}

HttpRequest HttpBucket::ToHttp(const RangeGet& read) const {
  const GetRequest& request = *read.request;
  HttpRequest http;
  http.url = RequestUrl(request.key);
  http.headers = headers_;
  AddVersionHeader(request.version, http.headers);
  // A server that does not support ranges answers with the complete file, which
  // is acceptable if all of it is wanted.
  http.body_bytes_max = read.target.empty() ? kAnswerBytesMax
                        : request.range.offset == 0
                            ? std::max(kRefusalBytesMax, read.byte_count)
                            : kRefusalBytesMax;
  return http;
}

std::vector<Result<HttpResponse>> HttpBucket::SendReads(
    std::span<const RangeGet> /*reads*/, std::span<HttpRequest> requests) {
  auto answers = client_.SendAll(requests);
  for (const Result<HttpResponse>& answer : answers) {
    if (answer.ok()) clock_.Note(answer->headers);
  }
  return answers;
}

Status HttpBucket::OtherVersion(const GetRequest& request,
                                const ObjectEntry& object) const {
  return DataLossError("read " + UrlOf(request.key) +
                       ": the file changed while being read (its version is "
                       "now " +
                       object.version + ", at first it was " + request.version +
                       ")");
}

Result<GetResult> HttpBucket::OtherAnswer(RangeGet& read,
                                          HttpResponse& answer) {
  if (answer.status == 200) {
    return TakeWholeObject(*this, read, answer,
                           StatusCode::kFailedPrecondition);
  }
  return StatusError(read.request->key, answer.status);
}

}  // namespace

Result<std::shared_ptr<Bucket>> OpenHttpBucket(const std::string& root_url,
                                               const RemoteOptions& options,
                                               HttpHeaders headers) {
  HF_ASSIGN_OR_RETURN(const Url root, ParseUrl(root_url));
  if (root.scheme != "http" && root.scheme != "https") {
    return InvalidArgumentError("open " + RedactUrl(root_url) +
                                ": want http:// or https://");
  }
  return std::shared_ptr<Bucket>(
      std::make_shared<HttpBucket>(root, options.http, std::move(headers)));
}

}  // namespace holdfast
