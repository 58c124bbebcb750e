// The drivers gcs, s3 and http.
#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "orbax/tspec/kvstore_drivers.h"
#include "stores/cloud/bucket_store.h"
#include "stores/cloud/remote_options.h"
#include "stores/http/url.h"
#include "stores/place/bucket_registry.h"
#include "stores/place/place.h"

namespace holdfast::spec {
namespace {

using zarr::AtMember;
using zarr::Find;
using zarr::InMember;
using zarr::Json;

bool IsBucketName(std::string_view name) {
  const auto is_edge = [](char c) {
    return std::islower(static_cast<uint8_t>(c)) ||
           std::isdigit(static_cast<uint8_t>(c));
  };
  if (name.size() < 3 || name.size() > 222) return false;
  if (!is_edge(name.front()) || !is_edge(name.back())) return false;
  return std::all_of(name.begin(), name.end(), [&](char c) {
    return is_edge(c) || c == '-' || c == '_' || c == '.';
  });
}

Status CheckBucket(const char* kind, const std::string& bucket) {
  if (IsBucketName(bucket)) return Status();
  return InvalidArgumentError("Invalid " + std::string(kind) +
                              " bucket name: \"" + bucket + "\"");
}

Status BucketUrl(const char* kind, std::string_view rest, KvStoreSpec& spec) {
  const size_t slash = std::min(rest.find('/'), rest.size());
  spec.bucket = rest.substr(0, slash);
  spec.path = PercentDecoded(rest.substr(std::min(slash + 1, rest.size())));
  return CheckBucket(kind, spec.bucket);
}

Status RefuseMember(std::string_view driver, std::string_view member) {
  return UnimplementedError("\"" + std::string(member) + "\" of driver \"" +
                            std::string(driver) +
                            "\" is not part of this release yet");
}

Status ReadOptionalString(const Json& object, std::string_view name,
                          std::string& value) {
  const Json* const member = Find(object, name);
  if (member == nullptr) return Status();
  HF_ASSIGN_OR_RETURN(value, InMember(name, zarr::ReadString(member)));
  return Status();
}

// Reads a context resource: an object, or the name of a resource, for which the
// defaults apply here.
Status ReadUserProject(const Json& object, KvStoreSpec& spec) {
  const Json* const member = Find(object, "gcs_user_project");
  if (member == nullptr || !member->is_object()) return Status();
  return AtMember("gcs_user_project",
                  ReadOptionalString(*member, "project_id", spec.user_project));
}

// Reads the kind of credentials. Each kind is looked up in its usual places.
Status ReadCredentials(const Json& object, KvStoreSpec& spec) {
  const Json* const member = Find(object, "aws_credentials");
  if (member == nullptr || !member->is_object()) return Status();
  std::string type = "default";
  HF_RETURN_IF_ERROR(ReadOptionalString(*member, "type", type));
  for (const std::string_view file :
       {"config_file", "credentials_file", "auth_token_file", "endpoint"}) {
    if (Find(*member, file) != nullptr) return RefuseMember("s3", file);
  }
  if (type == "anonymous") {
    spec.anonymous = true;
    return Status();
  }
  const bool is_known = type == "default" || type == "environment" ||
                        type == "profile" || type == "imds" || type == "ecs";
  if (!is_known) {
    return InvalidArgumentError("\"" + type +
                                "\" is not a registered credentials provider");
  }
  return ReadOptionalString(*member, "profile", spec.profile);
}

Status CheckBaseUrl(const std::string& url) {
  HF_ASSIGN_OR_RETURN(const Url parsed, ParseUrl(url));
  if (parsed.scheme == "http" || parsed.scheme == "https") return Status();
  return InvalidArgumentError("Invalid HTTP URL: \"" + RedactUrl(url) + "\"");
}

// Makes "https://host" with path "/a/b" of "https://host/a" with path "b".
Status SplitBaseUrl(KvStoreSpec& spec) {
  HF_RETURN_IF_ERROR(CheckBaseUrl(spec.base_url));
  const size_t authority = spec.base_url.find("://") + 3;
  const size_t slash = spec.base_url.find('/', authority);
  if (slash == std::string::npos) {
    if (!spec.path.starts_with('/')) spec.path.insert(0, "/");
    return Status();
  }
  std::string directory = PercentDecoded(spec.base_url.substr(slash));
  spec.base_url.resize(slash);
  if (directory == "/") {
    if (!spec.path.starts_with('/')) spec.path.insert(0, "/");
    return Status();
  }
  if (spec.path.starts_with('/')) {
    return InvalidArgumentError(
        "Cannot specify absolute path \"" + spec.path +
        "\" in conjunction with base URL that includes a path component");
  }
  if (!spec.path.empty() && !directory.ends_with('/')) directory += '/';
  spec.path.insert(0, directory);
  return Status();
}

Status WebUrl(std::string_view scheme, std::string_view rest,
              KvStoreSpec& spec) {
  spec.base_url = std::string(scheme).append("://").append(rest);
  return SplitBaseUrl(spec);
}

bool HasOwnOptions(const KvStoreSpec& spec) {
  return !spec.endpoint.empty() || !spec.region.empty() ||
         !spec.profile.empty() || !spec.user_project.empty() ||
         spec.anonymous || spec.requester_pays;
}

// Buckets that were opened with their own options. They stay open, because the
// specs of all arrays of a checkpoint have the same options.
class OwnBuckets {
 public:
  Result<std::shared_ptr<Bucket>> Open(const std::string& root,
                                       const KvStoreSpec& spec) {
    KvStoreSpec place = spec;
    place.path.clear();
    const std::string name = root + " " + Dump(place.ToJson());
    const std::lock_guard lock(mutex_);
    const auto found = buckets_.find(name);
    if (found != buckets_.end()) return found->second;
    BucketRegistry& registry = BucketRegistry::Default();
    RemoteOptions options = registry.options();
    if (!spec.endpoint.empty()) options.endpoint = spec.endpoint;
    if (!spec.region.empty()) options.region = spec.region;
    if (!spec.profile.empty()) options.profile = spec.profile;
    if (!spec.user_project.empty()) options.user_project = spec.user_project;
    options.anonymous = options.anonymous || spec.anonymous;
    options.requester_pays = options.requester_pays || spec.requester_pays;
    HF_ASSIGN_OR_RETURN(std::shared_ptr<Bucket> bucket,
                        registry.OpenWith(root, options));
    if (buckets_.size() >= kBucketsMax) buckets_.clear();
    buckets_[name] = bucket;
    return bucket;
  }

 private:
  static constexpr size_t kBucketsMax = 16;

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Bucket>> buckets_;
};

OwnBuckets& TheOwnBuckets() {
  // Never destroyed, because the buckets' threads may run until the process
  // ends.
  static OwnBuckets* const buckets = new OwnBuckets;
  return *buckets;
}

std::string RootUrl(const KvStoreSpec& spec) {
  if (spec.driver == "http") return spec.base_url;
  return (spec.driver == "gcs" ? "gs://" : "s3://") + spec.bucket;
}

// Returns the URL of a directory. An http path is not yet escaped, and a URL
// is.
std::string UrlOfDirectory(const KvStoreSpec& spec,
                           std::string_view directory) {
  const std::string path =
      spec.driver == "http" ? EscapePath(directory) : std::string(directory);
  return RootUrl(spec) + "/" + path;
}

}  // namespace

Status ParseGcs(const Json& object, KvStoreSpec& spec) {
  HF_ASSIGN_OR_RETURN(
      spec.bucket,
      InMember("bucket", zarr::ReadString(Find(object, "bucket"))));
  HF_RETURN_IF_ERROR(AtMember("bucket", CheckBucket("GCS", spec.bucket)));
  HF_RETURN_IF_ERROR(ReadPath(object, spec));
  HF_RETURN_IF_ERROR(CheckResources(
      object,
      {"context", "data_copy_concurrency", "experimental_gcs_rate_limiter",
       "gcs_request_concurrency", "gcs_request_retries", "gcs_user_project"}));
  HF_RETURN_IF_ERROR(ReadUserProject(object, spec));
  return zarr::CheckMembers(
      object, {"driver", "bucket", "path", "context", "data_copy_concurrency",
               "experimental_gcs_rate_limiter", "gcs_request_concurrency",
               "gcs_request_retries", "gcs_user_project"});
}

Status ParseS3(const Json& object, KvStoreSpec& spec) {
  const Json* const bucket = Find(object, "bucket");
  if (bucket == nullptr && Find(object, "endpoint") == nullptr) {
    return InvalidArgumentError(
        "\"bucket\" must be specified when \"endpoint\" is not set");
  }
  if (bucket != nullptr) {
    HF_ASSIGN_OR_RETURN(spec.bucket,
                        InMember("bucket", zarr::ReadString(bucket)));
    HF_RETURN_IF_ERROR(AtMember("bucket", CheckBucket("S3", spec.bucket)));
  }
  HF_RETURN_IF_ERROR(ReadPath(object, spec));
  HF_RETURN_IF_ERROR(CheckResources(
      object, {"aws_credentials", "context", "data_copy_concurrency",
               "experimental_s3_rate_limiter", "s3_request_concurrency",
               "s3_request_retries"}));
  HF_RETURN_IF_ERROR(ReadOptionalString(object, "endpoint", spec.endpoint));
  HF_RETURN_IF_ERROR(ReadOptionalString(object, "aws_region", spec.region));
  HF_RETURN_IF_ERROR(
      ReadOptionalBool(object, "requester_pays", spec.requester_pays));
  HF_RETURN_IF_ERROR(
      AtMember("aws_credentials", ReadCredentials(object, spec)));
  // Ignored, because every write here has the condition that it needs.
  bool use_conditional_write = true;
  HF_RETURN_IF_ERROR(
      ReadOptionalBool(object, "use_conditional_write", use_conditional_write));
  if (Find(object, "host_header") != nullptr) {
    return RefuseMember("s3", "host_header");
  }
  if (spec.bucket.empty()) {
    // The bucket would have to be part of the host name.
    return RefuseMember("s3", "endpoint without bucket");
  }
  return zarr::CheckMembers(
      object,
      {"driver", "bucket", "path", "context", "aws_credentials", "aws_region",
       "data_copy_concurrency", "endpoint", "experimental_s3_rate_limiter",
       "host_header", "requester_pays", "s3_request_concurrency",
       "s3_request_retries", "use_conditional_write"});
}

Status GcsUrl(std::string_view rest, KvStoreSpec& spec) {
  return BucketUrl("GCS", rest, spec);
}
Status S3Url(std::string_view rest, KvStoreSpec& spec) {
  return BucketUrl("S3", rest, spec);
}

Status ParseHttp(const Json& object, KvStoreSpec& spec) {
  HF_ASSIGN_OR_RETURN(
      spec.base_url,
      InMember("base_url", zarr::ReadString(Find(object, "base_url"))));
  HF_RETURN_IF_ERROR(ReadPath(object, spec));
  HF_RETURN_IF_ERROR(AtMember("base_url", SplitBaseUrl(spec)));
  HF_RETURN_IF_ERROR(CheckResources(
      object, {"context", "http_request_concurrency", "http_request_retries"}));
  // Headers could hold secrets, which must not be in a spec.
  const Json* const headers = Find(object, "headers");
  if (headers != nullptr && !(headers->is_array() && headers->empty())) {
    return RefuseMember("http", "headers");
  }
  return zarr::CheckMembers(
      object, {"driver", "base_url", "path", "headers", "context",
               "http_request_concurrency", "http_request_retries"});
}

Status HttpUrl(std::string_view rest, KvStoreSpec& spec) {
  return WebUrl("http", rest, spec);
}
Status HttpsUrl(std::string_view rest, KvStoreSpec& spec) {
  return WebUrl("https", rest, spec);
}

// Opens the store at the directory of the path, as OpenFile does.
Result<OpenedKvStore> OpenRemote(const KvStoreSpec& spec,
                                 const OpenSpecOptions& /*options*/) {
  std::string_view path = spec.path;
  if (spec.driver == "http" && path.starts_with('/')) path.remove_prefix(1);
  const size_t name_at = path.rfind('/') + 1;  // npos + 1 is 0
  std::string_view root = path.substr(0, name_at);
  if (!root.empty()) root.remove_suffix(1);
  OpenedKvStore opened;
  opened.prefix = path.substr(name_at);
  if (HasOwnOptions(spec)) {
    HF_ASSIGN_OR_RETURN(std::shared_ptr<Bucket> bucket,
                        TheOwnBuckets().Open(RootUrl(spec), spec));
    opened.store =
        std::make_shared<BucketStore>(std::move(bucket), std::string(root));
  } else {
    const Place directory(UrlOfDirectory(spec, root));
    HF_RETURN_IF_ERROR(directory.InBucket().status());
    opened.store = directory.OpenStore();
  }
  opened.commit = [store = opened.store] { return store->Flush(); };
  return opened;
}

}  // namespace holdfast::spec
