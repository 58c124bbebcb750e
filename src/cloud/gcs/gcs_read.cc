#include "cloud/gcs/gcs_read.h"

#include <algorithm>

#include "base/crc32c.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "cloud/content_range.h"
#include "cloud/gcs/gcs_write.h"
#include "http/http_date.h"

namespace holdfast {
namespace {

constexpr uint64_t kAnswerBytesMax = 1 << 20;  // of JSON and refusals
// Longer reads need a target of the caller's.
constexpr uint64_t kUntargetedBytesMax = 64 << 20;
constexpr uint64_t kOffsetMax = std::numeric_limits<int64_t>::max();

GcsAction ReadAction(std::string_view key) {
  return {"read", key, "storage.objects.get"};
}

bool IsHashHeader(std::string_view name) {
  constexpr std::string_view kName = "x-goog-hash";
  return name.size() == kName.size() &&
         std::equal(name.begin(), name.end(), kName.begin(),
                    [](char a, char b) { return (a | 0x20) == (b | 0x20); });
}

// The crc32c in x-goog-hash, which may come in one header or in several.
std::string_view HashOf(const HttpHeaders& headers) {
  for (const auto& [name, value] : headers) {
    const size_t at = value.find("crc32c=");
    if (!IsHashHeader(name) || at == std::string::npos) continue;
    const std::string_view text = std::string_view(value).substr(at + 7);
    return text.substr(0, text.find(','));
  }
  return "";
}

// One read of a batch while it is under way.
struct Reading {
  const GetRequest* request = nullptr;
  uint64_t byte_count = 0;  // asked for; exact where `is_exact`
  bool is_exact = false;
  Buffer buffer;           // where an exact read without a target goes
  std::span<char> target;  // empty: the answer's body
};

class BatchGet {
 public:
  BatchGet(GcsApi& api, uint64_t get_bytes_max, const CancelToken* cancel)
      : api_(api), get_bytes_max_(get_bytes_max), cancel_(cancel) {}

  // InvalidArgument or ResourceExhausted before anything is sent.
  Result<Reading> Plan(const GetRequest& request) const {
    Reading reading;
    reading.request = &request;
    reading.target = request.target;
    reading.is_exact =
        !request.target.empty() || request.range.byte_count != kToEnd;
    reading.byte_count = !request.target.empty() ? request.target.size()
                         : reading.is_exact      ? request.range.byte_count
                                                 : get_bytes_max_;
    HF_RETURN_IF_ERROR(CheckGcsKey(request.key));
    if (request.range.offset > kOffsetMax ||
        reading.byte_count > kOffsetMax - request.range.offset) {
      return OutOfRangeError("no object is so long");
    }
    if (request.target.empty() && reading.is_exact && reading.byte_count > 0) {
      if (reading.byte_count <= kUntargetedBytesMax) {
        reading.buffer = Buffer::TryAllocate(reading.byte_count);
      }
      if (reading.buffer.data() == nullptr) {
        return TooLong(reading.byte_count);
      }
      reading.target = {reading.buffer.data(), reading.byte_count};
    }
    return reading;
  }

  HttpRequest ToHttp(const Reading& reading) const {
    const GetRequest& request = *reading.request;
    GcsParameters parameters = {{"alt", "media"}};
    if (!request.version.empty()) {
      parameters.emplace_back("ifGenerationMatch", request.version);
    }
    HttpRequest http;
    http.url = api_.Url(api_.ObjectPath(request.key), parameters);
    const uint64_t first = request.range.offset;
    http.headers = {
        {"Range", "bytes=" + std::to_string(first) + "-" +
                      std::to_string(first + reading.byte_count - 1)}};
    http.target = reading.target;
    http.target_status = 206;
    http.body_bytes_max =
        reading.target.empty() ? get_bytes_max_ : kAnswerBytesMax;
    http.may_hedge = true;
    http.cancel = cancel_;
    return http;
  }

  Result<GetResult> Finish(Reading& reading, HttpResponse& answer) {
    const GetRequest& request = *reading.request;
    if (answer.status == 206) return Take(reading, answer);
    if (!request.version.empty() &&
        (answer.status == 412 || answer.status == 404 ||
         // The object with this generation is gone.
         answer.status == 304)) {
      return Changed(request);
    }
    if (answer.status == 416) return PastTheEnd(request);
    if (answer.status == 200) {
      const bool is_packed =
          FindHeader(answer.headers, "x-goog-stored-content-encoding")
              .value_or("identity") != "identity";
      return DataLossError(
          Where(request) +
          (is_packed ? ": it is stored with a Content-Encoding, and the server "
                       "unpacks it instead of giving a range"
                     : ": the server ignores ranges (got status 200, want "
                       "206)"));
    }
    return api_.Error(ReadAction(request.key), answer);
  }

  // HTTP has no empty range.
  Result<GetResult> ReadNothing(const GetRequest& request) {
    HF_ASSIGN_OR_RETURN(GcsObject object, GcsHead(api_, request.key));
    if (!request.version.empty() && object.entry.version != request.version) {
      return Changed(request);
    }
    if (request.range.offset > object.entry.byte_count) {
      return PastError(request, object.entry.byte_count);
    }
    return GetResult{Bytes(), std::move(object.entry)};
  }

 private:
  std::string Where(const GetRequest& request) const {
    return "read " + api_.UrlOf(request.key);
  }

  static Status TooLong(uint64_t byte_count) {
    return ResourceExhaustedError(
        std::to_string(byte_count) +
        " bytes are too many for one read without a target (at most " +
        std::to_string(kUntargetedBytesMax) + ")");
  }

  Status Changed(const GetRequest& request) const {
    return DataLossError(Where(request) +
                         ": changed or deleted while being read (generation " +
                         request.version + " is not there any more)");
  }

  Status PastError(const GetRequest& request, uint64_t object_bytes) const {
    return OutOfRangeError(Where(request) + ": bytes at offset " +
                           std::to_string(request.range.offset) +
                           " are past the end (the object has " +
                           std::to_string(object_bytes) + " bytes)");
  }

  // Answer 416, which an empty object also gives for a read of all of it.
  Result<GetResult> PastTheEnd(const GetRequest& request) {
    HF_ASSIGN_OR_RETURN(GcsObject object, GcsHead(api_, request.key));
    if (!request.version.empty() && object.entry.version != request.version) {
      return Changed(request);
    }
    const bool is_at_end = request.target.empty() &&
                           request.range.byte_count == kToEnd &&
                           request.range.offset == object.entry.byte_count;
    if (!is_at_end) return PastError(request, object.entry.byte_count);
    return GetResult{Bytes(), std::move(object.entry)};
  }

  Result<GetResult> Take(Reading& reading, HttpResponse& answer) {
    const GetRequest& request = *reading.request;
    const auto header = FindHeader(answer.headers, "content-range");
    const auto range =
        header ? ParseContentRange(*header) : std::optional<ContentRange>();
    const uint64_t got =
        reading.target.empty() ? answer.body.size() : answer.target_bytes;
    if (!range || range->offset != request.range.offset ||
        range->byte_count != got || got > reading.byte_count) {
      return DataLossError(
          Where(request) + ": the server answers with another range (want " +
          std::to_string(reading.byte_count) + " bytes at offset " +
          std::to_string(request.range.offset) + ")");
    }
    const uint64_t total = range->total_bytes;
    const bool is_at_end = total - range->offset == got;
    if (got < reading.byte_count && !is_at_end) {
      return DataLossError(Where(request) + ": the range is cut short");
    }
    if (reading.is_exact && got < reading.byte_count) {
      return PastError(request, total);
    }
    GetResult result;
    HF_ASSIGN_OR_RETURN(result.object, EntryOf(request, answer, total));
    const std::string_view bytes =
        reading.target.empty() ? answer.body.view()
                               : std::string_view(reading.target.data(), got);
    HF_RETURN_IF_ERROR(CheckHash(request, answer, bytes, total));
    if (reading.target.empty()) {
      result.bytes = answer.body;
      return is_at_end ? std::move(result) : ReadRest(request, result);
    }
    if (request.target.empty()) {
      result.bytes = Bytes(std::move(reading.buffer), got);
    }
    return result;
  }

  Result<ObjectEntry> EntryOf(const GetRequest& request,
                              const HttpResponse& answer,
                              uint64_t total) const {
    ObjectEntry entry;
    entry.key = request.key;
    entry.byte_count = total;
    const auto generation = FindHeader(answer.headers, "x-goog-generation");
    if (!generation || !ParseNumber<uint64_t>(*generation)) {
      return DataLossError(Where(request) + ": the answer names no generation");
    }
    entry.version = *generation;
    if (!request.version.empty() && entry.version != request.version) {
      return Changed(request);
    }
    const auto modified = FindHeader(answer.headers, "last-modified");
    if (modified) {
      entry.modified_ns = ParseHttpDate(*modified).value_or(0) * 1'000'000'000;
    }
    return entry;
  }

  Status CheckHash(const GetRequest& request, const HttpResponse& answer,
                   std::string_view bytes, uint64_t total) const {
    if (bytes.size() != total) return Status();
    const std::string_view want = HashOf(answer.headers);
    if (want.empty()) return Status();
    const std::string got = GcsCrc32cText(Crc32c(bytes));
    if (got == want) return Status();
    return DataLossError(Where(request) + ": crc32c does not fit (got " + got +
                         ", want " + CleanServerText(want, 16) + ")");
  }

  // Reads what the first request of a read to the end has left.
  Result<GetResult> ReadRest(const GetRequest& request, GetResult& first) {
    const uint64_t whole = first.object.byte_count - request.range.offset;
    Buffer buffer;
    if (whole <= kUntargetedBytesMax) buffer = Buffer::TryAllocate(whole);
    if (buffer.data() == nullptr) {
      return api_.Context(ReadAction(request.key), TooLong(whole));
    }
    const std::string_view begin = first.bytes.view();
    std::copy(begin.begin(), begin.end(), buffer.data());
    std::vector<GetRequest> rest;
    for (uint64_t at = begin.size(); at < whole; at += get_bytes_max_) {
      const uint64_t count = std::min(get_bytes_max_, whole - at);
      rest.push_back({request.key,
                      {request.range.offset + at, count},
                      first.object.version,
                      {buffer.data() + at, count}});
    }
    for (const auto& part : GcsGet(api_, rest, get_bytes_max_, cancel_)) {
      if (!part.ok()) return part.status();
    }
    return GetResult{Bytes(std::move(buffer), whole), std::move(first.object)};
  }

  GcsApi& api_;
  const uint64_t get_bytes_max_;
  const CancelToken* const cancel_;
};

}  // namespace

Result<GcsObject> GcsHead(GcsApi& api, std::string_view key) {
  HF_RETURN_IF_ERROR(CheckGcsKey(key));
  HF_RETURN_IF_ERROR(api.Begin());
  const GcsAction action = {"look at", key, "storage.objects.get"};
  HttpRequest request;
  request.url =
      api.Url(api.ObjectPath(key),
              {{"fields", "name,size,generation,updated,crc32c,metadata"}});
  request.body_bytes_max = kAnswerBytesMax;
  HF_ASSIGN_OR_RETURN(const HttpResponse answer,
                      api.Send(std::move(request), action));
  if (answer.status != 200) return api.Error(action, answer);
  auto object = ParseGcsObject(answer.body.view());
  if (!object.ok()) return api.Context(action, object.status());
  if (object->entry.key != key) {
    return DataLossError("look at " + api.UrlOf(key) +
                         ": the answer is of another object");
  }
  return object;
}

std::vector<Result<GetResult>> GcsGet(GcsApi& api,
                                      std::span<const GetRequest> requests,
                                      uint64_t get_bytes_max,
                                      const CancelToken* cancel) {
  Status begun = cancel == nullptr ? Status() : cancel->Check();
  if (begun.ok()) begun = api.Begin();
  if (!begun.ok())
    return std::vector<Result<GetResult>>(requests.size(), begun);
  BatchGet get(api, get_bytes_max, cancel);
  std::vector<Result<GetResult>> results(requests.size(), GetResult{});
  std::vector<Reading> readings;
  std::vector<size_t> places;  // of each reading in results
  std::vector<HttpRequest> http;
  for (size_t i = 0; i < requests.size(); ++i) {
    auto reading = get.Plan(requests[i]);
    if (!reading.ok()) {
      results[i] = api.Context(ReadAction(requests[i].key), reading.status());
    } else if (reading->byte_count == 0) {
      results[i] = get.ReadNothing(requests[i]);
    } else {
      readings.push_back(*std::move(reading));
      places.push_back(i);
    }
  }
  for (const Reading& reading : readings) http.push_back(get.ToHttp(reading));
  auto answers = api.SendAll(http);
  for (size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].ok()) {
      results[places[i]] = get.Finish(readings[i], *answers[i]);
    } else {
      const std::string& key = readings[i].request->key;
      results[places[i]] = api.Context(ReadAction(key), answers[i].status());
    }
  }
  return results;
}

}  // namespace holdfast
