// Drivers gcs and s3.
#include <algorithm>
#include <cctype>

#include "base/status_macros.h"
#include "spec/kvstore_drivers.h"

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

}  // namespace

Status ParseGcs(const Json& object, KvStoreSpec& spec) {
  HF_ASSIGN_OR_RETURN(
      spec.bucket,
      InMember("bucket", zarr::ReadString(Find(object, "bucket"))));
  HF_RETURN_IF_ERROR(AtMember("bucket", CheckBucket("GCS", spec.bucket)));
  HF_RETURN_IF_ERROR(ReadPath(object, spec));
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

}  // namespace holdfast::spec
