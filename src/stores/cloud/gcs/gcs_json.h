// The answers of Google Cloud Storage, from JSON to structs.
//
// Thread-safety: pure functions. Units: bytes; nanoseconds since 1970.
// Errors: DataLoss (an answer that is not JSON, lacks a member that it must
// have, or has a malformed number), without the answer's text: it may hold
// anything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "stores/cloud/bucket.h"

namespace holdfast {

// A conditional write leaves its id under this key of the custom metadata, so
// that a write whose answer was lost is known again.
inline constexpr std::string_view kGcsWriteIdKey = "holdfast-write-id";

struct GcsObject {
  ObjectEntry entry;     // version is the generation, in decimal
  std::string crc32c;    // base64; "" when the answer has none
  std::string write_id;  // "" when the object has none
};

struct GcsRewrite {
  bool is_done = false;
  std::string token;  // for the next call; "" when done
  GcsObject object;   // when done
};

// An error answer's own words.
struct GcsRefusal {
  std::string reason;   // "notFound", "conditionNotMet"; "" when it has none
  std::string message;  // one line, at most 400 bytes
};

Result<GcsObject> ParseGcsObject(std::string_view json);
// Objects must be in the order of their keys.
Result<ListPage> ParseGcsListPage(std::string_view json);
Result<GcsRewrite> ParseGcsRewrite(std::string_view json);
// The location in a bucket's answer, in lower case ("europe-west4"); "" when it
// is missing.
std::string ParseGcsLocation(std::string_view json);
// Takes any body: JSON in Google's form, or plain text.
GcsRefusal ParseGcsRefusal(std::string_view body);

// Control characters become spaces; what looks like a token of Google's is
// taken out; at most `byte_count_max` bytes.
std::string CleanServerText(std::string_view text, size_t byte_count_max);

}  // namespace holdfast
