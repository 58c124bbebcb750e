#include "stores/cloud/gcs/gcs_bucket.h"

#include <algorithm>

#include "ground/base/clock.h"
#include "ground/base/status_macros.h"
#include "stores/cloud/gcs/gcs_api.h"
#include "stores/cloud/gcs/gcs_json.h"
#include "stores/cloud/gcs/gcs_read.h"
#include "stores/cloud/gcs/gcs_upload.h"
#include "stores/cloud/gcs/gcs_write.h"

namespace holdfast {
namespace {

constexpr uint64_t kPartBytes = 16 << 20;
constexpr uint64_t kListAnswerBytesMax = 64 << 20;

BucketTraits GcsTraits() {
  BucketTraits traits;
  traits.parts_in_order = true;
  traits.upload_conditions = false;
  traits.put_bytes_max = kPartBytes;
  return traits;
}

class GcsBucket : public Bucket {
 public:
  explicit GcsBucket(std::shared_ptr<GcsApi> api)
      : api_(std::move(api)), traits_(GcsTraits()) {}

  const BucketTraits& traits() const override { return traits_; }

  std::string UrlOf(std::string_view key) const override {
    return api_->UrlOf(key);
  }

  Result<ObjectEntry> Head(std::string_view key) override {
    HF_ASSIGN_OR_RETURN(GcsObject object, GcsHead(*api_, key));
    return std::move(object.entry);
  }

  std::vector<Result<GetResult>> Get(std::span<const GetRequest> requests,
                                     const CancelToken* cancel) override {
    return GcsGet(*api_, requests, traits_.get_bytes_max, cancel);
  }

  Result<std::string> Put(std::string_view key,
                          std::span<const std::string_view> pieces,
                          const Condition& condition) override {
    return GcsPut(*api_, key, pieces, condition);
  }

  Result<std::unique_ptr<Upload>> StartUpload(std::string_view key) override {
    HF_RETURN_IF_ERROR(CheckGcsKey(key));
    return std::unique_ptr<Upload>(
        std::make_unique<GcsUpload>(api_, std::string(key), kPartBytes));
  }

  uint64_t part_bytes(uint64_t) const override { return kPartBytes; }

  Status Delete(std::string_view key, const Condition& condition) override {
    return GcsDelete(*api_, key, condition);
  }

  Status DeleteAll(std::span<const std::string> keys) override {
    return GcsDeleteAll(*api_, keys);
  }

  Result<ListPage> List(const ListRequest& request) override;

  Result<std::string> Copy(std::string_view source, std::string_view target,
                           const Condition& condition,
                           const std::string& source_version) override {
    return GcsCopy(*api_, source, target, condition, source_version);
  }

  Result<std::vector<UnfinishedUpload>> ListUploads(std::string_view) override {
    return std::vector<UnfinishedUpload>();
  }

  Status AbortUpload(const UnfinishedUpload& upload) override {
    return UnimplementedError(
        "abort an upload of " + UrlOf(upload.key) +
        ": Google's store does not list unfinished uploads; they expire by "
        "themselves");
  }

  int64_t ServerTimeNs() const override { return api_->server_time_ns(); }

  Result<BucketAccess> Access() override;

 private:
  std::string Location();

  const std::shared_ptr<GcsApi> api_;
  const BucketTraits traits_;
};

Result<ListPage> GcsBucket::List(const ListRequest& request) {
  HF_RETURN_IF_ERROR(api_->Begin());
  const GcsAction action = {"list", request.prefix, "storage.objects.list"};
  const int entry_count = std::clamp(request.entry_count_max, 1, 1000);
  GcsParameters parameters = {
      {"maxResults", std::to_string(entry_count)},
      {"fields", "items(name,size,generation,updated),prefixes,nextPageToken"}};
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) parameters.emplace_back(name, value);
  };
  add("prefix", request.prefix);
  add("delimiter", request.delimiter);
  add("startOffset", request.start_after);
  add("pageToken", request.page_token);
  HF_ASSIGN_OR_RETURN(
      ListPage page,
      api_->Ask(
          GcsApi::Request("GET", api_->Url(api_->ObjectsPath(), parameters),
                          kListAnswerBytesMax),
          action, ParseGcsListPage));
  // If a server ignored the prefix, other users' objects would be deleted or
  // read.
  for (const ObjectEntry& object : page.objects) {
    if (!object.key.starts_with(request.prefix)) {
      return DataLossError("list " + UrlOf(request.prefix) +
                           ": the server names an object outside the prefix");
    }
  }
  // The server's start offset is inclusive.
  if (!request.start_after.empty()) {
    std::erase_if(page.objects, [&](const ObjectEntry& object) {
      return object.key <= request.start_after;
    });
  }
  return page;
}

// Returns the bucket's location; "" if the credentials lack the permission for
// it (storage.buckets.get).
std::string GcsBucket::Location() {
  const GcsAction action = {"look at", "", "storage.buckets.get"};
  if (!api_->Begin().ok()) return "";
  const auto answer = api_->Send(
      GcsApi::Request("GET",
                      api_->Url(api_->BucketPath(), {{"fields", "location"}})),
      action);
  if (!answer.ok() || answer->status != 200) return "";
  return ParseGcsLocation(answer->body.view());
}

Result<BucketAccess> GcsBucket::Access() {
  HF_ASSIGN_OR_RETURN(const GcsIdentity identity,
                      api_->credentials().Identity());
  BucketAccess access;
  access.endpoint = api_->endpoint();
  access.region = Location();
  access.credentials = identity.kind == "anonymous"
                           ? "none (anonymous: " + identity.where + ")"
                           : identity.Text();
  return access;
}

}  // namespace

Result<std::shared_ptr<Bucket>> OpenGcsBucket(const std::string& bucket,
                                              const RemoteOptions& options) {
  return OpenGcsBucketIn(bucket, options, ProcessEnvironment());
}

Result<std::shared_ptr<Bucket>> OpenGcsBucketIn(
    const std::string& bucket, const RemoteOptions& options,
    const Environment& environment) {
  HF_RETURN_IF_ERROR(CheckGcsBucketName(bucket));
  HF_ASSIGN_OR_RETURN(const GcsSettings settings,
                      ReadGcsSettings(options, environment));
  const auto client = std::make_shared<HttpClient>(options.http);
  const auto find = [environment, client, anonymous = options.anonymous,
                     is_emulator = settings.is_emulator] {
    return FindTokenSource(environment, anonymous, is_emulator, client,
                           SystemNowNs);
  };
  const auto credentials = std::make_shared<GcsCredentials>(
      find, /*plain_http=*/!IsSafeForSecrets(settings.endpoint), SystemNowNs);
  const bool requester_pays =
      options.requester_pays || !settings.user_project.empty();
  return std::shared_ptr<Bucket>(
      std::make_shared<GcsBucket>(std::make_shared<GcsApi>(
          bucket, settings, requester_pays, client, credentials)));
}

}  // namespace holdfast
