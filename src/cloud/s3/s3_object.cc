#include "cloud/s3/s3_object.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/status_macros.h"
#include "base/text.h"
#include "cloud/content_range.h"
#include "cloud/s3/s3_xml.h"
#include "http/http_date.h"

namespace holdfast {
namespace {

std::string RangeText(const ByteRange& range) {
  std::string text = "bytes " + std::to_string(range.offset) + " to ";
  if (range.byte_count == kToEnd) return text + "the end";
  return text + std::to_string(range.offset + range.byte_count);
}

bool IsWholeObject(const ByteRange& range) {
  return range.offset == 0 && range.byte_count == kToEnd;
}

// The number of bytes in the answer's body, wherever they were put.
uint64_t ReceivedBytes(const HttpResponse& response) {
  return response.target_bytes > 0 ? response.target_bytes
                                   : response.body.size();
}

// The part, and of which whole, that the answer says it is.
Result<ContentRange> AnsweredRange(const ByteRange& wanted,
                                   const HttpResponse& response) {
  const auto header = FindHeader(response.headers, "content-range");
  const auto range = header ? ParseContentRange(*header) : std::nullopt;
  if (range) return *range;
  if (header || response.status == 206) {
    return DataLossError("asked for " + RangeText(wanted) +
                         ": the answer does not say which range it is");
  }
  const auto length = FindHeader(response.headers, "content-length");
  const auto byte_count =
      length ? ParseNumber<uint64_t>(*length) : std::nullopt;
  const uint64_t whole = byte_count.value_or(ReceivedBytes(response));
  return ContentRange{0, whole, whole};
}

}  // namespace

std::string RangeHeader(const ByteRange& range) {
  if (IsWholeObject(range)) return "";
  std::string text = "bytes=" + std::to_string(range.offset) + '-';
  if (range.byte_count == kToEnd) return text;
  return text + std::to_string(range.offset + range.byte_count - 1);
}

Result<ObjectEntry> EntryOf(std::string_view key,
                            const HttpResponse& response) {
  ObjectEntry entry;
  entry.key = std::string(key);
  const auto range = FindHeader(response.headers, "content-range");
  const auto parsed = range ? ParseContentRange(*range) : std::nullopt;
  const auto length = FindHeader(response.headers, "content-length");
  const auto byte_count =
      length ? ParseNumber<uint64_t>(*length) : std::nullopt;
  if (parsed) {
    entry.byte_count = parsed->total_bytes;
  } else if (byte_count) {
    entry.byte_count = *byte_count;
  } else {
    return DataLossError("the answer does not say how large the object is");
  }
  if (const auto etag = FindHeader(response.headers, "etag")) {
    entry.version = UnquoteETag(*etag);
  }
  if (const auto modified = FindHeader(response.headers, "last-modified")) {
    const auto seconds = ParseHttpDate(*modified);
    entry.modified_ns = seconds.value_or(0) * 1'000'000'000;
  }
  return entry;
}

Status OtherVersion(std::string_view got, std::string_view want) {
  return DataLossError(
      "the object was changed while it was read: it is now "
      "version " +
      std::string(got) + ", want " + std::string(want));
}

Result<ByteRange> ClampRange(const ByteRange& range, uint64_t object_bytes) {
  const bool fits = range.offset <= object_bytes &&
                    (range.byte_count == kToEnd ||
                     range.byte_count <= object_bytes - range.offset);
  if (!fits) {
    return OutOfRangeError("asked for " + RangeText(range) +
                           ", the object has " + std::to_string(object_bytes) +
                           " bytes");
  }
  return ByteRange{range.offset,
                   std::min(range.byte_count, object_bytes - range.offset)};
}

Result<GetResult> GetResultOf(const GetRequest& request,
                              const HttpResponse& response) {
  GetResult result;
  result.object.key = request.key;
  HF_ASSIGN_OR_RETURN(const ContentRange range,
                      AnsweredRange(request.range, response));
  result.object.byte_count = range.total_bytes;
  if (const auto etag = FindHeader(response.headers, "etag")) {
    result.object.version = UnquoteETag(*etag);
  }
  if (const auto modified = FindHeader(response.headers, "last-modified")) {
    result.object.modified_ns =
        ParseHttpDate(*modified).value_or(0) * 1'000'000'000;
  }
  if (!request.version.empty() && result.object.version != request.version) {
    return OtherVersion(result.object.version, request.version);
  }
  HF_ASSIGN_OR_RETURN(const ByteRange wanted,
                      ClampRange(request.range, range.total_bytes));
  if (range.offset != wanted.offset || range.byte_count != wanted.byte_count) {
    return DataLossError("asked for " + RangeText(wanted) + ", got " +
                         RangeText({range.offset, range.byte_count}) +
                         (response.status == 200
                              ? " with status 200: the server ignores ranges"
                              : ""));
  }
  const uint64_t received_bytes = ReceivedBytes(response);
  if (received_bytes != wanted.byte_count) {
    return DataLossError("asked for " + RangeText(wanted) + ", got " +
                         std::to_string(received_bytes) + " bytes");
  }
  if (request.target.empty()) {
    result.bytes = response.body;
    return result;
  }
  if (request.target.size() != received_bytes) {
    return OutOfRangeError(
        "asked for " + std::to_string(request.target.size()) +
        " bytes, the object's end leaves " + std::to_string(received_bytes));
  }
  if (response.target_bytes == 0) {
    std::memcpy(request.target.data(), response.body.data(), received_bytes);
  }
  return result;
}

}  // namespace holdfast
