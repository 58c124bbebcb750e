#include "stores/place/server_checks.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "ground/base/status_macros.h"
#include "stores/place/bucket_registry.h"
#include "stores/place/swap_file.h"

namespace holdfast {
namespace {

constexpr const char* kAllowUnsafe = "HOLDFAST_ALLOW_UNSAFE_COMMIT";

// The buckets that were already checked, by address.
class AskedBuckets {
 public:
  bool Has(const std::shared_ptr<Bucket>& bucket) {
    const std::lock_guard lock(mutex_);
    std::erase_if(asked_,
                  [](const auto& entry) { return entry.second.expired(); });
    // A new bucket may have the address of one that was destroyed.
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

// Returns a string that looks like a version of the object but never is one.
// Numeric versions grow with time, so a smaller number is returned. Other
// versions are digests, so one character is changed.
std::string OtherVersion(std::string version) {
  const bool is_number = !version.empty() && version.find_first_not_of(
                                                 "0123456789") == version.npos;
  const size_t last =
      is_number ? version.find_last_not_of('0') : version.size() - 1;
  if (version.empty() || last == version.npos) return version + "0";
  char& digit = version[last];
  digit = is_number ? static_cast<char>(digit - 1) : digit == '7' ? '8' : '7';
  return version;
}

// Returns true if the server refuses a write whose condition does not hold. If
// the write succeeds, it is undone.
Result<bool> IsRefused(const Place& place, const BucketPlace& file,
                       const GetResult& now, const Condition& condition) {
  // This differs from the present content: equal content could be taken for a
  // repeated write of our own.
  const std::string text = now.bytes.ToString() + "\n";
  const std::string_view pieces[] = {text};
  const Status put = file.bucket->Put(file.key, pieces, condition).status();
  if (put.code() == StatusCode::kFailedPrecondition ||
      put.code() == StatusCode::kAlreadyExists) {
    return true;
  }
  HF_RETURN_IF_ERROR(put);
  const Status undone = DeleteFileIf(place, text);
  // Another saver has taken the file in the meantime.
  if (undone.code() == StatusCode::kFailedPrecondition) return false;
  HF_RETURN_IF_ERROR(undone);
  return false;
}

}  // namespace

Result<bool> HonoursConditions(const Place& place) {
  HF_ASSIGN_OR_RETURN(const BucketPlace file, place.InBucket());
  if (Asked().Has(file.bucket)) return true;
  const GetRequest request{.key = file.key};
  std::vector<Result<GetResult>> results = file.bucket->Get({&request, 1});
  if (results.front().status().code() == StatusCode::kNotFound) return false;
  HF_RETURN_IF_ERROR(results.front().status());
  const GetResult& now = *results.front();
  for (const Condition& impossible :
       {Condition::Absent(),
        Condition::Version(OtherVersion(now.object.version))}) {
    HF_ASSIGN_OR_RETURN(const bool is_refused,
                        IsRefused(place, file, now, impossible));
    if (!is_refused) return false;
  }
  Asked().Add(file.bucket);
  return true;
}

Status TakeServerAsItIs(const Place& place) {
  HF_ASSIGN_OR_RETURN(const BucketPlace file, place.InBucket());
  const std::string what =
      "save to " + file.bucket->UrlOf("") +
      ": the server ignores conditions of writes (If-None-Match and If-Match, "
      "or ifGenerationMatch), so two saves at once could both count as "
      "complete";
  const char* const allow = std::getenv(kAllowUnsafe);
  if (allow == nullptr || std::string_view(allow) != "1") {
    return FailedPreconditionError(
        what + "; refused (" + kAllowUnsafe +
        "=1 saves all the same: see to it that only one process saves to a "
        "path)");
  }
  std::fprintf(stderr, "holdfast: %s\n", what.c_str());
  Asked().Add(file.bucket);
  return Status();
}

Status AbortUploadsBelow(const Place& place) {
  HF_ASSIGN_OR_RETURN(const BucketPlace at, place.InBucket());
  const auto uploads = at.bucket->ListUploads(at.prefix());
  if (!uploads.ok()) {
    // A checkpoint can be saved without permission to list uploads; unfinished
    // uploads only cost storage.
    const bool is_refused =
        uploads.status().code() == StatusCode::kPermissionDenied ||
        uploads.status().code() == StatusCode::kUnimplemented;
    return is_refused ? Status() : uploads.status();
  }
  Status first;
  for (const UnfinishedUpload& upload : *uploads) {
    const Status aborted = at.bucket->AbortUpload(upload);
    const bool is_gone = aborted.code() == StatusCode::kNotFound;
    if (first.ok() && !is_gone) first = aborted;
  }
  return first;
}

}  // namespace holdfast
