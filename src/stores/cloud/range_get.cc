#include "stores/cloud/range_get.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "ground/base/status_macros.h"
#include "stores/cloud/answer_headers.h"
#include "stores/cloud/content_range.h"

namespace holdfast {
namespace {

// Reads longer than this need a target from the caller.
constexpr uint64_t kUntargetedBytesMax = uint64_t{64} << 20;
constexpr uint64_t kOffsetMax = std::numeric_limits<int64_t>::max();

// Returns the range of a request, limited by its target.
ByteRange WantedRange(const GetRequest& request) {
  if (request.target.empty()) return request.range;
  return {request.range.offset, request.target.size()};
}

Status CheckVersion(const RangeServer& server, const GetRequest& request,
                    const ObjectEntry& object) {
  if (request.version.empty() || request.version == object.version) return {};
  return server.OtherVersion(request, object);
}

// Moves an answer's body to the read's destination.
Bytes TakeBody(RangeGet& read, HttpResponse& answer) {
  if (read.target.empty()) return std::move(answer.body);
  const uint64_t got = std::max(answer.target_bytes, answer.body.size());
  if (!answer.body.empty()) {
    std::memcpy(read.target.data(), answer.body.data(), got);
  }
  return read.request->target.empty() ? Bytes(std::move(read.buffer), got)
                                      : Bytes();
}

class RangeReader {
 public:
  RangeReader(RangeServer& server, const CancelToken* cancel)
      : server_(server), cancel_(cancel) {}

  // Plans a read, without sending a request.
  Result<RangeGet> Plan(const GetRequest& request) const {
    HF_RETURN_IF_ERROR(server_.CheckReadKey(request.key));
    const ByteRange wanted = WantedRange(request);
    RangeGet read;
    read.request = &request;
    read.target = request.target;
    read.is_exact = wanted.byte_count != kToEnd;
    read.byte_count = read.is_exact ? wanted.byte_count : server_.open_bytes();
    if (wanted.offset > kOffsetMax ||
        read.byte_count > kOffsetMax - wanted.offset) {
      return OutOfRangeError(Where(request) + ": no object is that long");
    }
    if (request.target.empty() && read.is_exact && read.byte_count > 0) {
      HF_ASSIGN_OR_RETURN(read.buffer, Untargeted(request, read.byte_count));
      read.target = {read.buffer.data(), read.byte_count};
    }
    return read;
  }

  HttpRequest ToHttp(const RangeGet& read) const {
    HttpRequest http = server_.ToHttp(read);
    const uint64_t first = read.request->range.offset;
    const bool is_whole =
        first == 0 && !read.is_exact && server_.gives_whole_objects();
    if (!is_whole) {
      http.headers.emplace_back(
          "Range", "bytes=" + std::to_string(first) + "-" +
                       std::to_string(first + read.byte_count - 1));
    }
    http.target = read.target;
    http.may_hedge = true;
    http.cancel = cancel_;
    return http;
  }

  Result<GetResult> Take(RangeGet& read, Result<HttpResponse>& answer) {
    if (!answer.ok()) {
      return server_.SendFailure(*read.request, answer.status());
    }
    const auto range = FindHeader(answer->headers, "content-range");
    if (answer->status == 206 || (answer->status == 200 && range)) {
      return TakeRange(read, *answer, range.value_or(""));
    }
    // A complete read of an empty object is also answered with 416.
    if (answer->status == 416) return ReadNothing(*read.request);
    return server_.OtherAnswer(read, *answer);
  }

  // Reads an empty range. HTTP cannot express one, so only the size and version
  // are requested.
  Result<GetResult> ReadNothing(const GetRequest& request) {
    HF_ASSIGN_OR_RETURN(ObjectEntry object, server_.HeadOf(request.key));
    HF_RETURN_IF_ERROR(CheckVersion(server_, request, object));
    HF_ASSIGN_OR_RETURN(const ByteRange range,
                        ResolveRange(WantedRange(request), object.byte_count,
                                     server_.UrlOf(request.key)));
    if (range.byte_count > 0) return WrongRange(request, object.byte_count);
    return GetResult{Bytes(), std::move(object)};
  }

 private:
  std::string Where(const GetRequest& request) const {
    return "read " + server_.UrlOf(request.key);
  }

  Result<Buffer> Untargeted(const GetRequest& request,
                            uint64_t byte_count) const {
    Buffer buffer;
    if (byte_count <= kUntargetedBytesMax) {
      buffer = Buffer::TryAllocate(byte_count);
    }
    if (buffer.data() != nullptr) return buffer;
    return ResourceExhaustedError(
        Where(request) + ": " + std::to_string(byte_count) +
        " bytes are too many for one read without a target (at most " +
        std::to_string(kUntargetedBytesMax) + ")");
  }

  // Returns the error for an answer with a wrong range: OutOfRange if the
  // object does not have the wanted range, otherwise DataLoss.
  Status WrongRange(const GetRequest& request, uint64_t total_bytes) const {
    HF_RETURN_IF_ERROR(ResolveRange(WantedRange(request), total_bytes,
                                    server_.UrlOf(request.key))
                           .status());
    return DataLossError(Where(request) +
                         ": the server gives a range that was not asked for");
  }

  Result<GetResult> TakeRange(RangeGet& read, HttpResponse& answer,
                              std::string_view range_text) {
    const GetRequest& request = *read.request;
    const auto range = ParseContentRange(range_text);
    if (!range) {
      return DataLossError(Where(request) +
                           ": the server does not say which range it gives");
    }
    const uint64_t total = range->total_bytes;
    GetResult result;
    HF_ASSIGN_OR_RETURN(result.object, server_.EntryOf(request, answer, total));
    HF_RETURN_IF_ERROR(CheckVersion(server_, request, result.object));
    const std::string_view bytes =
        answer.target_bytes == 0
            ? answer.body.view()
            : std::string_view(read.target.data(), answer.target_bytes);
    const uint64_t got = bytes.size();
    const bool is_at_end = total - range->offset == got;
    if (range->offset != request.range.offset || range->byte_count != got ||
        got > read.byte_count ||
        (got < read.byte_count && (read.is_exact || !is_at_end))) {
      return WrongRange(request, total);
    }
    HF_RETURN_IF_ERROR(server_.CheckBytes(request, answer, bytes, total));
    result.bytes = TakeBody(read, answer);
    return read.is_exact || is_at_end ? std::move(result)
                                      : ReadRest(request, result);
  }

  // Reads the rest of the object after the first request of a read to the end.
  Result<GetResult> ReadRest(const GetRequest& request, GetResult& first) {
    const uint64_t whole = first.object.byte_count - request.range.offset;
    HF_ASSIGN_OR_RETURN(Buffer buffer, Untargeted(request, whole));
    const std::string_view begin = first.bytes.view();
    std::copy(begin.begin(), begin.end(), buffer.data());
    const uint64_t step = server_.open_bytes();
    std::vector<GetRequest> rest;
    for (uint64_t at = begin.size(); at < whole; at += step) {
      const uint64_t count = std::min(step, whole - at);
      rest.push_back({request.key,
                      {request.range.offset + at, count},
                      first.object.version,
                      {buffer.data() + at, count}});
    }
    for (const auto& part : GetRanges(server_, rest, cancel_)) {
      HF_RETURN_IF_ERROR(part.status());
    }
    return GetResult{Bytes(std::move(buffer), whole), std::move(first.object)};
  }

  RangeServer& server_;
  const CancelToken* const cancel_;
};

}  // namespace

Result<GetResult> TakeWholeObject(const RangeServer& server, RangeGet& read,
                                  HttpResponse& answer, StatusCode refusal) {
  const GetRequest& request = *read.request;
  const uint64_t got = answer.body.size();
  const uint64_t total =
      NumberHeader(answer.headers, "content-length").value_or(got);
  GetResult result;
  HF_ASSIGN_OR_RETURN(result.object, server.EntryOf(request, answer, total));
  HF_RETURN_IF_ERROR(CheckVersion(server, request, result.object));
  HF_RETURN_IF_ERROR(
      ResolveRange(WantedRange(request), total, server.UrlOf(request.key))
          .status());
  const bool is_whole = request.range.offset == 0 && got == total &&
                        (!read.is_exact || read.byte_count == total);
  if (!is_whole) {
    return Status(refusal,
                  "read " + server.UrlOf(request.key) +
                      ": the server ignores ranges (got HTTP 200 with all of " +
                      std::to_string(total) + " bytes, want 206)");
  }
  result.bytes = TakeBody(read, answer);
  return result;
}

std::vector<Result<GetResult>> GetRanges(RangeServer& server,
                                         std::span<const GetRequest> requests,
                                         const CancelToken* cancel) {
  if (cancel != nullptr && cancel->cancelled()) {
    return std::vector<Result<GetResult>>(requests.size(), cancel->Check());
  }
  RangeReader reader(server, cancel);
  std::vector<Result<GetResult>> results(requests.size(), GetResult{});
  std::vector<RangeGet> reads;
  std::vector<size_t> places;  // the index of each read in results
  for (size_t i = 0; i < requests.size(); ++i) {
    Result<RangeGet> read = reader.Plan(requests[i]);
    if (!read.ok()) {
      results[i] = read.status();
    } else if (read->byte_count == 0) {
      results[i] = reader.ReadNothing(requests[i]);
    } else {
      reads.push_back(*std::move(read));
      places.push_back(i);
    }
  }
  std::vector<HttpRequest> sent;
  for (const RangeGet& read : reads) sent.push_back(reader.ToHttp(read));
  std::vector<Result<HttpResponse>> answers = server.SendReads(reads, sent);
  for (size_t i = 0; i < answers.size(); ++i) {
    results[places[i]] = reader.Take(reads[i], answers[i]);
  }
  return results;
}

}  // namespace holdfast
