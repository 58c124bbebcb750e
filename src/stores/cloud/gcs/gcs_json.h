// Parses the JSON answers of Google Cloud Storage into structs.
//
// Thread-safety: pure functions. Units: bytes; nanoseconds since 1970.
// Errors: DataLoss (an answer that is not JSON, lacks a required member, or has
// a malformed number); messages leave out the answer's text, since it may
// contain anything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "stores/cloud/bucket.h"

namespace holdfast {

// A conditional write stores its id under this key of the custom metadata, so
// that a write whose answer was lost can be recognized.
inline constexpr std::string_view kGcsWriteIdKey = "holdfast-write-id";

struct GcsObject {
  ObjectEntry entry;     // version is the generation, in decimal
  std::string crc32c;    // base64; "" when the answer has none
  std::string write_id;  // "" if the object has none
};

struct GcsRewrite {
  bool is_done = false;
  std::string token;  // for the next call; "" when finished
  GcsObject object;   // set when finished
};

// The reason and message of an error answer.
struct GcsRefusal {
  std::string reason;   // "notFound", "conditionNotMet"; "" if it has none
  std::string message;  // one line, at most 400 bytes
};

Result<GcsObject> ParseGcsObject(std::string_view json);
// Parses a page of a listing. DataLoss unless the objects are in the order of
// their keys.
Result<ListPage> ParseGcsListPage(std::string_view json);
Result<GcsRewrite> ParseGcsRewrite(std::string_view json);
// Returns the location in a bucket's answer, in lower case ("europe-west4"); ""
// if it is missing.
std::string ParseGcsLocation(std::string_view json);
// Parses any error body: JSON in Google's form, or plain text.
GcsRefusal ParseGcsRefusal(std::string_view body);

// Replaces control characters with spaces, removes anything that looks like a
// Google token, and cuts the text to `byte_count_max` bytes.
std::string CleanServerText(std::string_view text, size_t byte_count_max);

}  // namespace holdfast
