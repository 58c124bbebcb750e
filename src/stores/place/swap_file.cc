#include "stores/place/swap_file.h"

#include <utility>

#include "ground/base/status_macros.h"
#include "stores/place/bucket_registry.h"

namespace holdfast {
namespace {

constexpr uint64_t kStateBytesMax = 1 << 20;

Result<BucketPlace> ObjectAt(const Place& file) {
  if (file.is_remote()) return file.InBucket();
  return UnimplementedError("swap " + file.path() +
                            ": file systems have no compare and swap");
}

Result<GetResult> GetSmall(const BucketPlace& file) {
  const GetRequest request{.key = file.key};
  std::vector<Result<GetResult>> results = file.bucket->Get({&request, 1});
  Result<GetResult>& result = results.front();
  if (result.ok() && result->bytes.size() > kStateBytesMax) {
    return DataLossError(
        "read " + file.url() + ": has " + std::to_string(result->bytes.size()) +
        " bytes (want at most " + std::to_string(kStateBytesMax) + ")");
  }
  return std::move(result);
}

Status AnotherContent(const BucketPlace& file, std::string_view what) {
  return FailedPreconditionError("swap " + file.url() + ": " +
                                 std::string(what));
}

// Returns ok if the file has our content: the condition may have failed because
// of our own earlier write, whose answer was lost.
Status AfterLostRace(const BucketPlace& file, std::string_view content,
                     const Status& put) {
  const Result<GetResult> now = GetSmall(file);
  if (now.ok() && now->bytes.view() == content) return {};
  return put.code() == StatusCode::kAlreadyExists ||
                 put.code() == StatusCode::kFailedPrecondition
             ? AnotherContent(file, "another content is there")
             : put;
}

bool IsLostRace(const Status& status) {
  return status.code() == StatusCode::kFailedPrecondition ||
         status.code() == StatusCode::kAlreadyExists ||
         status.code() == StatusCode::kUnavailable ||
         status.code() == StatusCode::kDeadlineExceeded;
}

Status PutIf(const BucketPlace& file, std::string_view content,
             const Condition& condition) {
  const std::string_view pieces[] = {content};
  const Status put = file.bucket->Put(file.key, pieces, condition).status();
  return IsLostRace(put) ? AfterLostRace(file, content, put) : put;
}

}  // namespace

Status SwapFile(const Place& place, std::optional<std::string_view> expected,
                std::string_view content) {
  HF_ASSIGN_OR_RETURN(const BucketPlace file, ObjectAt(place));
  if (!expected) return PutIf(file, content, Condition::Absent());
  Result<GetResult> now = GetSmall(file);
  if (now.status().code() == StatusCode::kNotFound) {
    return AnotherContent(file, "nothing is there");
  }
  HF_RETURN_IF_ERROR(now.status());
  if (now->bytes.view() != *expected) {
    return AnotherContent(file, "another content is there");
  }
  // The version closes the gap between the read and the write.
  return PutIf(file, content, Condition::Version(now->object.version));
}

Result<FileState> ReadFileState(const Place& place) {
  HF_ASSIGN_OR_RETURN(const BucketPlace file, ObjectAt(place));
  HF_ASSIGN_OR_RETURN(const GetResult now, GetSmall(file));
  return FileState{now.bytes.ToString(), now.object.modified_ns,
                   file.bucket->ServerTimeNs()};
}

Status DeleteFileIf(const Place& place, std::string_view expected) {
  HF_ASSIGN_OR_RETURN(const BucketPlace file, ObjectAt(place));
  const Result<GetResult> now = GetSmall(file);
  if (now.status().code() == StatusCode::kNotFound) return {};
  HF_RETURN_IF_ERROR(now.status());
  if (now->bytes.view() != expected) {
    return AnotherContent(file, "another content is there");
  }
  return file.bucket->Delete(file.key, Condition::Version(now->object.version));
}

}  // namespace holdfast
