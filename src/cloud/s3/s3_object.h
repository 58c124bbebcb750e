// What an answer to HEAD or GET says of an object, and whether it is what was
// asked for.
//
// Thread-safety: pure functions. Units: bytes; nanoseconds since 1970.
// Errors: DataLoss (another version, an answer that is not the wanted range),
// OutOfRange (the object ends before the range does); the caller adds the URL.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cloud/bucket.h"
#include "holdfast/status.h"
#include "http/http_client.h"

namespace holdfast {

// The Range header of a range that is neither empty nor the whole object;
// "" for the whole object. REQUIRES: range.byte_count > 0.
std::string RangeHeader(const ByteRange& range);

// Taken from Content-Length or Content-Range, ETag and Last-Modified.
Result<ObjectEntry> EntryOf(std::string_view key, const HttpResponse& response);

// For an answer with status 200 or 206 to `request`: the wanted bytes of the
// wanted version, in the target or in the answer; or why there are none.
Result<GetResult> GetResultOf(const GetRequest& request,
                              const HttpResponse& response);

// For a range of an object whose size is known, without bytes: kToEnd becomes a
// number. OutOfRange when it ends after the object.
Result<ByteRange> ClampRange(const ByteRange& range, uint64_t object_bytes);

// "it is version X now, and version Y is wanted: …".
Status OtherVersion(std::string_view got, std::string_view want);

}  // namespace holdfast
