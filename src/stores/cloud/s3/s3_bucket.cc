#include "stores/cloud/s3/s3_bucket.h"

#include <openssl/evp.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "stores/cloud/s3/s3_bucket_parts.h"
#include "stores/cloud/s3/s3_copy.h"
#include "stores/cloud/s3/s3_read.h"
#include "stores/cloud/s3/s3_upload.h"
#include "stores/cloud/s3/s3_write.h"
#include "stores/cloud/s3/s3_xml.h"

namespace holdfast {
namespace {

constexpr size_t kDeleteKeysMax = 1000;
constexpr size_t kSinglesAtOnceMax = 1000;
constexpr int kListEntriesMax = 1000;

// Returns the MD5 that delete batches must carry, in Base64; "" if OpenSSL has
// no MD5 (FIPS).
std::string ContentMd5(std::string_view body) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned digest_bytes = 0;
  if (EVP_Digest(body.data(), body.size(), digest, &digest_bytes, EVP_md5(),
                 nullptr) != 1) {
    return "";
  }
  return Base64({reinterpret_cast<char*>(digest), digest_bytes});
}

class S3Bucket : public Bucket {
 public:
  explicit S3Bucket(std::shared_ptr<S3Connection> connection)
      : connection_(std::move(connection)) {
    traits_.upload_conditions = false;
  }

  const BucketTraits& traits() const override { return traits_; }
  std::string UrlOf(std::string_view key) const override {
    return connection_->UrlOf(key);
  }

  Result<ObjectEntry> Head(std::string_view key) override {
    return HeadObject(*connection_, key);
  }

  std::vector<Result<GetResult>> Get(std::span<const GetRequest> requests,
                                     const CancelToken* cancel) override {
    return GetObjects(*connection_, requests, cancel);
  }

  Result<std::string> Put(std::string_view key,
                          std::span<const std::string_view> pieces,
                          const Condition& condition) override {
    return PutObject(*connection_, key, pieces, condition);
  }

  Result<std::unique_ptr<Upload>> StartUpload(std::string_view key) override {
    auto upload = S3Upload::Start(connection_, key);
    if (!upload.ok()) return upload.status();
    return std::unique_ptr<Upload>(std::move(*upload));
  }

  uint64_t part_bytes(uint64_t index) const override {
    return S3PartBytes(index);
  }

  Status Delete(std::string_view key, const Condition& condition) override {
    return DeleteObject(*connection_, key, condition);
  }

  Status DeleteAll(std::span<const std::string> keys) override;
  Result<ListPage> List(const ListRequest& request) override;

  Result<std::string> Copy(std::string_view source, std::string_view target,
                           const Condition& condition,
                           const std::string& source_version) override {
    return CopyObject(connection_, source, target, condition, source_version);
  }

  Result<std::vector<UnfinishedUpload>> ListUploads(
      std::string_view prefix) override;

  Status AbortUpload(const UnfinishedUpload& upload) override {
    return AbortS3Upload(*connection_, upload.key, upload.upload_id);
  }

  int64_t ServerTimeNs() const override {
    return connection_->server_time_ns();
  }

  Result<BucketAccess> Access() override;

 private:
  // Returns the keys of a batch that must still be deleted one by one.
  Result<std::vector<std::string>> LeftOfBatch(
      const S3Request& request, const Result<HttpResponse>& answer,
      std::span<const std::string> keys);
  Status DeleteSingly(std::span<const std::string> keys);

  const std::shared_ptr<S3Connection> connection_;
  BucketTraits traits_;
  std::atomic<bool> has_batches_{true};
};

Status S3Bucket::DeleteAll(std::span<const std::string> keys) {
  std::vector<std::string> singles, batched;
  for (const std::string& key : keys) {
    const bool fits = has_batches_ && CanBeInXml(key);
    (fits ? batched : singles).push_back(key);
  }
  std::vector<std::string> bodies;
  std::vector<std::span<const std::string>> batches;
  for (size_t i = 0; i < batched.size(); i += kDeleteKeysMax) {
    const size_t count = std::min(kDeleteKeysMax, batched.size() - i);
    batches.push_back(std::span(batched).subspan(i, count));
    bodies.push_back(DeleteXml(batches.back()));
  }
  std::vector<S3Request> requests;
  for (const std::string& body : bodies) {
    S3Request request("deleting", "POST");
    request.query = {{"delete", ""}};
    request.headers = {{"Content-Type", "application/xml"}};
    const std::string md5 = ContentMd5(body);
    if (!md5.empty()) request.headers.emplace_back("Content-MD5", md5);
    request.body = {body};
    requests.push_back(std::move(request));
  }
  const auto answers = connection_->SendAll(requests);
  Status failure;
  for (size_t i = 0; i < answers.size(); ++i) {
    auto left = LeftOfBatch(requests[i], answers[i], batches[i]);
    if (!left.ok()) {
      if (failure.ok()) failure = left.status();
      continue;
    }
    singles.insert(singles.end(), left->begin(), left->end());
  }
  const Status singly = DeleteSingly(singles);
  return failure.ok() ? singly : failure;
}

Result<std::vector<std::string>> S3Bucket::LeftOfBatch(
    const S3Request& request, const Result<HttpResponse>& answer,
    std::span<const std::string> keys) {
  if (!answer.ok()) return answer.status();
  const int status = answer->status;
  const S3Error error = ErrorOfResponse(*answer);
  const bool knows_no_batches = status == 501 || status == 405 ||
                                status == 400 ||
                                (status == 404 && error.code != "NoSuchBucket");
  if (knows_no_batches) {
    // This is remembered, so that the next call sends no batch to this server.
    has_batches_ = false;
    return std::vector<std::string>(keys.begin(), keys.end());
  }
  if (status != 200 || IsErrorDocument(answer->body.view())) {
    if (IsPassingError(error)) {
      return std::vector<std::string>(keys.begin(), keys.end());
    }
    return connection_->Failure(request, *answer);
  }
  const auto failures = ParseDeleteResult(answer->body.view());
  if (!failures.ok()) return failures.status().WithContext(UrlOf(""));
  // The failed keys are deleted one by one: single deletes are retried, and
  // give full error messages.
  std::vector<std::string> left;
  for (const DeleteFailure& failed : *failures) {
    if (failed.code != "NoSuchKey") left.push_back(failed.key);
  }
  return left;
}

Status S3Bucket::DeleteSingly(std::span<const std::string> keys) {
  Status failure;
  for (size_t begin = 0; begin < keys.size(); begin += kSinglesAtOnceMax) {
    const size_t count = std::min(kSinglesAtOnceMax, keys.size() - begin);
    std::vector<S3Request> requests;
    for (const std::string& key : keys.subspan(begin, count)) {
      requests.emplace_back("deleting", "DELETE", key);
    }
    const auto answers = connection_->SendAll(requests);
    for (size_t i = 0; i < count; ++i) {
      const Status status =
          JudgeDelete(*connection_, requests[i], answers[i], {});
      if (failure.ok()) failure = status;
    }
  }
  return failure;
}

Result<ListPage> S3Bucket::List(const ListRequest& list) {
  S3Request request("listing", "GET");
  if (!list.prefix.empty()) request.action += " " + list.prefix;
  const int count = std::clamp(list.entry_count_max, 1, kListEntriesMax);
  request.query = {{"list-type", "2"}, {"encoding-type", "url"}};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) request.query.emplace_back(name, value);
  };
  add("prefix", list.prefix);
  add("delimiter", list.delimiter);
  add("max-keys", std::to_string(count));
  if (list.page_token.empty()) {
    add("start-after", list.start_after);
  } else {
    add("continuation-token", list.page_token);
  }
  const std::string where = UrlOf(list.prefix) + ": listing";
  HF_ASSIGN_OR_RETURN(ListPage page,
                      connection_->Ask(request, where, ParseListPage));
  if (!page.next_page_token.empty() &&
      page.next_page_token == list.page_token) {
    return DataLossError(where + ": the server gives the same page again");
  }
  return page;
}

Result<std::vector<UnfinishedUpload>> S3Bucket::ListUploads(
    std::string_view prefix) {
  const std::string where = UrlOf(prefix) + ": listing uploads";
  std::vector<UnfinishedUpload> uploads;
  std::string key_marker, id_marker;
  for (;;) {
    S3Request request("listing uploads", "GET");
    // The request does not ask for escaped keys, because Ceph then escapes keys
    // without saying so.
    request.query = {{"prefix", std::string(prefix)}, {"uploads", ""}};
    if (!key_marker.empty()) {
      request.query.emplace_back("key-marker", key_marker);
      request.query.emplace_back("upload-id-marker", id_marker);
    }
    HF_ASSIGN_OR_RETURN(UploadsPage page,
                        connection_->Ask(request, where, ParseUploadsPage));
    for (UnfinishedUpload& upload : page.uploads) {
      if (upload.key.starts_with(prefix)) uploads.push_back(std::move(upload));
    }
    if (page.next_key.empty()) return uploads;
    // A repeated page would loop forever.
    if (page.next_key == key_marker && page.next_upload_id == id_marker) {
      return DataLossError(where + ": the server gives the same page again");
    }
    key_marker = std::move(page.next_key);
    id_marker = std::move(page.next_upload_id);
  }
}

Result<BucketAccess> S3Bucket::Access() {
  HF_ASSIGN_OR_RETURN(const auto credentials, connection_->credentials().Get());
  const std::string region = connection_->region();
  return BucketAccess{EndpointUrl(connection_->settings(), region), region,
                      CredentialsText(*credentials)};
}

}  // namespace

std::shared_ptr<Bucket> MakeS3Bucket(std::shared_ptr<S3Connection> connection) {
  return std::make_shared<S3Bucket>(std::move(connection));
}

Result<std::shared_ptr<Bucket>> OpenS3Bucket(const std::string& bucket,
                                             const RemoteOptions& options) {
  HF_ASSIGN_OR_RETURN(const AwsConfig config,
                      ReadAwsConfig(options.profile, ProcessEnvironment()));
  HF_ASSIGN_OR_RETURN(S3Settings settings,
                      MakeS3Settings(bucket, options, config));
  auto client = std::make_shared<HttpClient>(options.http);
  // The first request reports missing credentials, like any refusal, so that
  // opening a URL makes no requests.
  auto source = FindCredentialSource(config, options.anonymous, client);
  if (!source.ok()) {
    if (source.status().code() != StatusCode::kPermissionDenied) {
      return source.status();
    }
    source = CredentialSource(
        [status = source.status()]() -> Result<AwsCredentials> {
          return status;
        });
  }
  return MakeS3Bucket(std::make_shared<S3Connection>(
      std::move(settings), std::move(*source), std::move(client)));
}

}  // namespace holdfast
