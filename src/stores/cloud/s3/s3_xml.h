// Parses the XML that S3 and STS answer with, and writes the XML that is sent
// to S3.
//
// The parsers read the bytes of a server that may be wrong or hostile. They use
// about ten times the answer's size in memory at most, allow any depth of
// nesting, refuse numbers that do not fit, and expand no entities beyond XML's
// own five.
// Thread-safety: pure functions. Units: bytes; nanoseconds since 1970.
// Errors: DataLoss "not the XML of ..."; the caller adds the URL.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/status.h"
#include "stores/cloud/bucket.h"

namespace holdfast {

// Parses the answer to ListObjectsV2. Keys are unescaped if the answer says
// that they are escaped.
Result<ListPage> ParseListPage(std::string_view xml);

struct S3Error {
  std::string code;  // "NoSuchKey"; "" if the body has none
  std::string message;
  std::string request_id;
  std::string region;    // from AuthorizationHeaderMalformed
  std::string endpoint;  // from PermanentRedirect
};
// Parses an error. Never fails: text that is not an error document gives an
// empty S3Error. Also understands STS's <ErrorResponse><Error>.
S3Error ParseS3Error(std::string_view xml);
// Returns whether the document's root is <Error>, which S3 may send even with
// status 200.
bool IsErrorDocument(std::string_view xml);

// Parses the answer to CreateMultipartUpload.
Result<std::string> ParseUploadId(std::string_view xml);
// Returns the ETag in the answer to CompleteMultipartUpload, CopyObject or
// UploadPartCopy, unquoted. NotFound if the document has none.
Result<std::string> ParseResultETag(std::string_view xml);

struct DeleteFailure {
  std::string key, code, message;
};
Result<std::vector<DeleteFailure>> ParseDeleteResult(std::string_view xml);

struct UploadsPage {
  std::vector<UnfinishedUpload> uploads;
  std::string next_key, next_upload_id;  // markers; "" on the last page
};
Result<UploadsPage> ParseUploadsPage(std::string_view xml);

struct PartsPage {
  std::vector<std::pair<int, std::string>> parts;  // number (from 1) and ETag
  std::string next_marker;                         // "" on the last page
};
Result<PartsPage> ParsePartsPage(std::string_view xml);

struct StsKeys {
  std::string access_key_id, secret_access_key, session_token;
  int64_t expires_ns = 0;  // 0: not reported
};
// Parses the answer to AssumeRole and AssumeRoleWithWebIdentity.
Result<StsKeys> ParseStsKeys(std::string_view xml);

// These make the documents that are sent. Keys must satisfy CanBeInXml.
std::string CompleteXml(std::span<const std::string> etags);
std::string DeleteXml(std::span<const std::string> keys);
// Returns true for valid UTF-8 without the characters that XML 1.0 cannot
// represent.
bool CanBeInXml(std::string_view text);

// Returns the ETag without quotes, a "W/" prefix, spaces and control
// characters.
std::string UnquoteETag(std::string_view etag);

}  // namespace holdfast
