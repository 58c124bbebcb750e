#include "cloud/version_reads.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/status_macros.h"

namespace holdfast {
namespace {

using Seen = SeenVersions::Seen;

// How often a read that meets this store's own writes is begun again.
constexpr int kAttemptsMax = 100;

// One read with what was known of its object when it was sent.
struct Attempt {
  const VersionRead* read = nullptr;
  Seen seen;
  size_t first_request = 0;
  size_t request_count = 0;
};

void AddRequests(const Bucket& bucket, Attempt& attempt,
                 std::vector<GetRequest>& requests) {
  const VersionRead& read = *attempt.read;
  const uint64_t step = bucket.traits().get_bytes_max;
  attempt.first_request = requests.size();
  for (uint64_t done = 0; done < read.target.size(); done += step) {
    const uint64_t count = std::min<uint64_t>(step, read.target.size() - done);
    requests.push_back({.key = read.key,
                        .range = {read.offset + done, count},
                        .version = attempt.seen.version,
                        .target = read.target.subspan(done, count)});
  }
  attempt.request_count = requests.size() - attempt.first_request;
}

// Whether a write of this store came between, so that asking again may help.
bool HasMoved(const SeenVersions& seen, const std::string& key,
              const Seen& before) {
  return seen.Look(key).epoch != before.epoch;
}

// A failure in the words of a store: which range of how long an object, and
// whether the object is another one by now.
Status Explain(Bucket& bucket, const std::string& key, const ByteRange& range,
               const Seen& seen, const Status& status) {
  if (status.code() == StatusCode::kOutOfRange) {
    uint64_t byte_count = seen.byte_count;
    if (!seen.is_known) {
      HF_ASSIGN_OR_RETURN(const ObjectEntry entry, bucket.Head(key));
      byte_count = entry.byte_count;
    }
    HF_RETURN_IF_ERROR(
        ResolveRange(range, byte_count, bucket.UrlOf(key)).status());
  }
  if (status.code() != StatusCode::kDataLoss &&
      status.code() != StatusCode::kOutOfRange) {
    return status;
  }
  const Result<ObjectEntry> now = bucket.Head(key);
  if (!now.ok() || now->version == seen.version || !seen.is_known) {
    return status;
  }
  return DataLossError("read " + bucket.UrlOf(key) +
                       ": the object changed while being read (its version is "
                       "now " +
                       now->version + ", at first it was " + seen.version +
                       ")");
}

// All answers to one read are of one version, which is then known.
Status Settle(Bucket& bucket, SeenVersions& seen, const Attempt& attempt,
              std::span<const Result<GetResult>> answers) {
  const VersionRead& read = *attempt.read;
  for (const Result<GetResult>& answer : answers) {
    if (answer.ok()) continue;
    return Explain(bucket, read.key, {read.offset, read.target.size()},
                   attempt.seen, answer.status());
  }
  const ObjectEntry& object = answers.front()->object;
  for (const Result<GetResult>& answer : answers) {
    if (answer->object.version == object.version) continue;
    return DataLossError("read " + bucket.UrlOf(read.key) +
                         ": the object changed while being read (versions " +
                         object.version + " and " + answer->object.version +
                         ")");
  }
  seen.Found(read.key, attempt.seen.epoch, object.version, object.byte_count);
  const Seen now = seen.Look(read.key);
  if (!now.is_known || now.epoch != attempt.seen.epoch ||
      now.version == object.version) {
    return {};
  }
  return DataLossError("read " + bucket.UrlOf(read.key) +
                       ": the object changed while being read (versions " +
                       now.version + " and " + object.version + ")");
}

// Reads that need no request: of nothing, and past an end that is known.
Result<bool> IsAnsweredAtOnce(Bucket& bucket, SeenVersions& seen,
                              const VersionRead& read, const Seen& known) {
  uint64_t byte_count = known.byte_count;
  if (!known.is_known) {
    if (!read.target.empty()) return false;
    HF_ASSIGN_OR_RETURN(const ObjectEntry entry,
                        StatVersion(bucket, seen, read.key));
    byte_count = entry.byte_count;
  }
  HF_RETURN_IF_ERROR(ResolveRange({read.offset, read.target.size()}, byte_count,
                                  bucket.UrlOf(read.key))
                         .status());
  return read.target.empty();
}

}  // namespace

Status ReadVersions(Bucket& bucket, SeenVersions& seen,
                    std::span<const VersionRead> reads,
                    const CancelToken* cancel) {
  std::vector<const VersionRead*> open;
  for (const VersionRead& read : reads) open.push_back(&read);
  for (int round = 1; !open.empty(); ++round) {
    if (cancel != nullptr) HF_RETURN_IF_ERROR(cancel->Check());
    std::vector<Attempt> attempts;
    std::vector<GetRequest> requests;
    for (const VersionRead* read : open) {
      Attempt attempt{.read = read, .seen = seen.Look(read->key)};
      HF_ASSIGN_OR_RETURN(const bool is_answered,
                          IsAnsweredAtOnce(bucket, seen, *read, attempt.seen));
      if (is_answered) continue;
      AddRequests(bucket, attempt, requests);
      attempts.push_back(attempt);
    }
    const std::vector<Result<GetResult>> answers = bucket.Get(requests, cancel);
    open.clear();
    for (const Attempt& attempt : attempts) {
      const Status status =
          Settle(bucket, seen, attempt,
                 std::span(answers).subspan(attempt.first_request,
                                            attempt.request_count));
      if (status.ok()) continue;
      const bool may_repeat = round < kAttemptsMax &&
                              HasMoved(seen, attempt.read->key, attempt.seen);
      if (!may_repeat) return status;
      open.push_back(attempt.read);
    }
  }
  return {};
}

namespace {

// An object of unknown size, in one request while it is small.
Result<Bytes> ReadUnknown(Bucket& bucket, SeenVersions& seen,
                          const std::string& key, const ByteRange& range) {
  for (int round = 1;; ++round) {
    const Seen known = seen.Look(key);
    const GetRequest request{
        .key = key, .range = range, .version = known.version};
    Result<GetResult> answer = bucket.Get({&request, 1}).front();
    if (answer.ok()) {
      const ObjectEntry& object = answer->object;
      seen.Found(key, known.epoch, object.version, object.byte_count);
      return std::move(answer->bytes);
    }
    if (round < kAttemptsMax && HasMoved(seen, key, known)) continue;
    return Explain(bucket, key, range, known, answer.status());
  }
}

}  // namespace

Result<Bytes> ReadVersion(Bucket& bucket, SeenVersions& seen,
                          const std::string& key, const ByteRange& range) {
  for (int round = 1;; ++round) {
    const Seen known = seen.Look(key);
    const uint64_t step = bucket.traits().get_bytes_max;
    if (!known.is_known && range.byte_count == kToEnd) {
      // Its size is found out first where it may be large.
      Result<Bytes> bytes = ReadUnknown(bucket, seen, key, range);
      if (bytes.status().code() != StatusCode::kResourceExhausted) return bytes;
      HF_RETURN_IF_ERROR(StatVersion(bucket, seen, key).status());
      if (round == kAttemptsMax) return bytes;
      continue;
    }
    ByteRange exact = range;
    if (known.is_known) {
      HF_ASSIGN_OR_RETURN(
          exact, ResolveRange(range, known.byte_count, bucket.UrlOf(key)));
    }
    if (exact.byte_count > 0 && exact.byte_count <= step) {
      return ReadUnknown(bucket, seen, key, exact);
    }
    if (!known.is_known) {
      // So that no allocation is made for what is not there.
      HF_ASSIGN_OR_RETURN(const ObjectEntry entry,
                          StatVersion(bucket, seen, key));
      HF_ASSIGN_OR_RETURN(
          exact, ResolveRange(range, entry.byte_count, bucket.UrlOf(key)));
    }
    Buffer buffer = Buffer::TryAllocate(exact.byte_count);
    if (buffer.size() < exact.byte_count) {
      return ResourceExhaustedError(
          "read " + bucket.UrlOf(key) + ": no memory for " +
          std::to_string(exact.byte_count) + " bytes");
    }
    const VersionRead read{
        key, exact.offset, {buffer.data(), exact.byte_count}};
    HF_RETURN_IF_ERROR(ReadVersions(bucket, seen, {&read, 1}, nullptr));
    return Bytes(std::move(buffer), exact.byte_count);
  }
}

Result<ObjectEntry> StatVersion(Bucket& bucket, SeenVersions& seen,
                                const std::string& key) {
  for (int round = 1;; ++round) {
    const Seen known = seen.Look(key);
    HF_ASSIGN_OR_RETURN(ObjectEntry entry, bucket.Head(key));
    seen.Found(key, known.epoch, entry.version, entry.byte_count);
    if (!known.is_known || known.version == entry.version) return entry;
    if (round < kAttemptsMax && HasMoved(seen, key, known)) continue;
    return DataLossError("look at " + bucket.UrlOf(key) +
                         ": the object changed while being read (its version "
                         "is now " +
                         entry.version + ", at first it was " + known.version +
                         ")");
  }
}

}  // namespace holdfast
