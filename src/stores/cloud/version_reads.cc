#include "stores/cloud/version_reads.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

using Seen = SeenVersions::Seen;

// A read that collides with this store's own writes starts again, up to this
// many attempts in total.
constexpr int kAttemptsMax = 100;

// One read, with the object's version that was known when the read was sent.
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

// Returns true if this store has written the object in the meantime, so that
// asking again may help.
bool HasMoved(const SeenVersions& seen, const std::string& key,
              const Seen& before) {
  return seen.Look(key).epoch != before.epoch;
}

// Rewords a failure for a store: says which range of an object of which size
// was read, and whether the object has been replaced in the meantime.
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

// Checks that all answers to one read have the same version, and records it.
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
  // Another thread may have recorded a different version first.
  const Seen now = seen.Look(read.key);
  if (!now.is_known || now.epoch != attempt.seen.epoch ||
      now.version == object.version) {
    return {};
  }
  return DataLossError("read " + bucket.UrlOf(read.key) +
                       ": the object changed while being read (versions " +
                       now.version + " and " + object.version + ")");
}

// Returns true if the read is empty and so needs no data. Fails for a range
// past the object's end, if the object's size is known.
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

// Sends one request, for the known version, or for any version if none is
// known.
Result<Bytes> GetOnce(Bucket& bucket, SeenVersions& seen,
                      const std::string& key, const ByteRange& range,
                      const Seen& known) {
  const GetRequest request{
      .key = key, .range = range, .version = known.version};
  Result<GetResult> answer = bucket.Get({&request, 1}).front();
  if (!answer.ok()) return answer.status();
  const ObjectEntry& object = answer->object;
  seen.Found(key, known.epoch, object.version, object.byte_count);
  return std::move(answer->bytes);
}

Result<Bytes> GetInParts(Bucket& bucket, SeenVersions& seen,
                         const std::string& key, const ByteRange& range) {
  Buffer buffer = Buffer::TryAllocate(range.byte_count);
  if (buffer.size() < range.byte_count) {
    return ResourceExhaustedError("read " + bucket.UrlOf(key) +
                                  ": no memory for " +
                                  std::to_string(range.byte_count) + " bytes");
  }
  const VersionRead read{key, range.offset, {buffer.data(), range.byte_count}};
  HF_RETURN_IF_ERROR(ReadVersions(bucket, seen, {&read, 1}, nullptr));
  return Bytes(std::move(buffer), range.byte_count);
}

// Reads a range. `known` is what was known of the object when the read began.
Result<Bytes> ReadKnown(Bucket& bucket, SeenVersions& seen,
                        const std::string& key, const ByteRange& range,
                        const Seen& known) {
  const uint64_t step = bucket.traits().get_bytes_max;
  ByteRange exact = range;
  if (known.is_known) {
    HF_ASSIGN_OR_RETURN(
        exact, ResolveRange(range, known.byte_count, bucket.UrlOf(key)));
  } else if (range.byte_count == kToEnd) {
    Result<Bytes> bytes = GetOnce(bucket, seen, key, range, known);
    // The size is requested below only if the object is too large for one
    // answer.
    if (bytes.status().code() != StatusCode::kResourceExhausted) return bytes;
  }
  if (exact.byte_count > 0 && exact.byte_count <= step) {
    return GetOnce(bucket, seen, key, exact, known);
  }
  if (!known.is_known) {
    // The size is requested first, so that no memory is allocated for a missing
    // object.
    HF_ASSIGN_OR_RETURN(const ObjectEntry entry,
                        StatVersion(bucket, seen, key));
    HF_ASSIGN_OR_RETURN(
        exact, ResolveRange(range, entry.byte_count, bucket.UrlOf(key)));
  }
  return GetInParts(bucket, seen, key, exact);
}

}  // namespace

Result<Bytes> ReadVersion(Bucket& bucket, SeenVersions& seen,
                          const std::string& key, const ByteRange& range) {
  for (int round = 1;; ++round) {
    const Seen known = seen.Look(key);
    Result<Bytes> bytes = ReadKnown(bucket, seen, key, range, known);
    // This store's own write may have moved the object's end in the meantime.
    const bool is_whole =
        range.byte_count != kToEnd ||
        (bytes.ok() && bytes->size() <= bucket.traits().get_bytes_max);
    if (bytes.ok() && is_whole) return bytes;
    if (HasMoved(seen, key, known) && round < kAttemptsMax) continue;
    if (bytes.ok() && !HasMoved(seen, key, known)) return bytes;
    if (bytes.ok()) {
      return UnavailableError("read " + bucket.UrlOf(key) +
                              ": it is being written all the time");
    }
    return Explain(bucket, key, range, known, bytes.status());
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
