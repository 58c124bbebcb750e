#include "place/server_checks.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>

#include "base/status_macros.h"
#include "place/bucket_registry.h"

namespace holdfast {
namespace {

constexpr const char* kAllowUnsafe = "HOLDFAST_ALLOW_UNSAFE_COMMIT";

// The buckets that have been asked, by identity.
class AskedBuckets {
 public:
  bool Has(const std::shared_ptr<Bucket>& bucket) {
    const std::lock_guard lock(mutex_);
    std::erase_if(asked_,
                  [](const auto& entry) { return entry.second.expired(); });
    const auto found = asked_.find(bucket.get());
    return found != asked_.end() && found->second.lock() == bucket;
  }
  void Add(const std::shared_ptr<Bucket>& bucket) {
    const std::lock_guard lock(mutex_);
    asked_[bucket.get()] = bucket;
  }

 private:
  std::mutex mutex_;
  std::map<const Bucket*, std::weak_ptr<Bucket>> asked_;
};

AskedBuckets& Asked() {
  static AskedBuckets asked;
  return asked;
}

// One that looks like a version and is none of the object.
std::string OtherVersion(const GetResult& now) {
  std::string version = now.object.version;
  if (!version.empty()) version.back() = version.back() == '7' ? '8' : '7';
  return version;
}

// Ok when a write that must not happen was refused for its condition.
Status CheckRefused(const BucketPlace& file, const GetResult& now,
                    const Condition& condition, std::string_view header) {
  // Nearly what is there. Just that could pass for a write of ours that was
  // sent twice.
  const std::string_view pieces[] = {now.bytes.view(), "\n"};
  const Status put = file.bucket->Put(file.key, pieces, condition).status();
  if (put.code() == StatusCode::kFailedPrecondition ||
      put.code() == StatusCode::kAlreadyExists) {
    return Status();
  }
  HF_RETURN_IF_ERROR(put);
  HF_RETURN_IF_ERROR(file.bucket->Put(file.key, std::span(pieces, 1)).status());
  return FailedPreconditionError(
      "save to " + file.bucket->UrlOf("") + ": the server ignores " +
      std::string(header) +
      ", so two saves at once could both count as complete");
}

Status AskServer(const BucketPlace& file) {
  const GetRequest request{.key = file.key};
  std::vector<Result<GetResult>> results = file.bucket->Get({&request, 1});
  HF_RETURN_IF_ERROR(results.front().status());
  const GetResult& now = *results.front();
  HF_RETURN_IF_ERROR(CheckRefused(file, now, Condition::Absent(),
                                  "the condition that an object be absent "
                                  "(If-None-Match, ifGenerationMatch=0)"));
  return CheckRefused(file, now, Condition::Version(OtherVersion(now)),
                      "the condition that an object have a certain version "
                      "(If-Match, ifGenerationMatch)");
}

}  // namespace

Status CheckServerHonoursConditions(const std::string& path) {
  HF_ASSIGN_OR_RETURN(const BucketPlace file,
                      BucketRegistry::Default().Find(path));
  if (Asked().Has(file.bucket)) return Status();
  const Status asked = AskServer(file);
  if (asked.code() == StatusCode::kFailedPrecondition) {
    const char* const allow = std::getenv(kAllowUnsafe);
    if (allow == nullptr || std::string_view(allow) != "1") {
      return FailedPreconditionError(
          std::string(asked.message()) + "; refused (" + kAllowUnsafe +
          "=1 saves all the same: see to it that only one process saves to a "
          "path)");
    }
    std::fprintf(stderr, "holdfast: %s\n",
                 std::string(asked.message()).c_str());
  } else {
    HF_RETURN_IF_ERROR(asked);
  }
  Asked().Add(file.bucket);
  return Status();
}

Status AbortUploadsBelow(const std::string& path) {
  HF_ASSIGN_OR_RETURN(const BucketPlace place,
                      BucketRegistry::Default().Find(path));
  const auto uploads = place.bucket->ListUploads(place.prefix());
  if (!uploads.ok()) {
    const bool is_refused =
        uploads.status().code() == StatusCode::kPermissionDenied ||
        uploads.status().code() == StatusCode::kUnimplemented;
    return is_refused ? Status() : uploads.status();
  }
  Status first;
  for (const UnfinishedUpload& upload : *uploads) {
    const Status aborted = place.bucket->AbortUpload(upload);
    const bool is_gone = aborted.code() == StatusCode::kNotFound;
    if (first.ok() && !is_gone) first = aborted;
  }
  return first;
}

}  // namespace holdfast
