// The XML that S3 and STS answer with, and the XML that S3 is sent.
//
// Parsers take the bytes of a server that may be wrong or hostile: memory is at
// most some ten times the answer's, nesting may be of any depth, numbers that
// do not fit are refused, and entities beyond XML's own five are not expanded.
// Thread-safety: pure functions. Units: bytes; nanoseconds since 1970.
// Errors: DataLoss "not the XML of ...": the caller adds the URL.
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

// ListObjectsV2. Keys are unescaped where the answer says that they are.
Result<ListPage> ParseListPage(std::string_view xml);

struct S3Error {
  std::string code;  // "NoSuchKey"; "" when the body says none
  std::string message;
  std::string request_id;
  std::string region;    // of AuthorizationHeaderMalformed
  std::string endpoint;  // of PermanentRedirect
};
// Never fails: a text other than an error document gives an empty S3Error.
// Understands STS's <ErrorResponse><Error> as well.
S3Error ParseS3Error(std::string_view xml);
// Whether the document's root is <Error>: S3 may answer so with status 200.
bool IsErrorDocument(std::string_view xml);

// InitiateMultipartUpload.
Result<std::string> ParseUploadId(std::string_view xml);
// The ETag of CompleteMultipartUpload, CopyObject or UploadPartCopy, unquoted;
// NotFound where the document has none.
Result<std::string> ParseResultETag(std::string_view xml);

struct DeleteFailure {
  std::string key, code, message;
};
Result<std::vector<DeleteFailure>> ParseDeleteResult(std::string_view xml);

struct UploadsPage {
  std::vector<UnfinishedUpload> uploads;
  std::string next_key, next_upload_id;  // markers; both "": the last page
};
Result<UploadsPage> ParseUploadsPage(std::string_view xml);

struct PartsPage {
  std::vector<std::pair<int, std::string>> parts;  // number from 1, ETag
  std::string next_marker;                         // "": the last page
};
Result<PartsPage> ParsePartsPage(std::string_view xml);

struct StsKeys {
  std::string access_key_id, secret_access_key, session_token;
  int64_t expires_ns = 0;  // 0: not told
};
// AssumeRole and AssumeRoleWithWebIdentity.
Result<StsKeys> ParseStsKeys(std::string_view xml);

// Documents that we send. Keys must be CanBeInXml.
std::string CompleteXml(std::span<const std::string> etags);
std::string DeleteXml(std::span<const std::string> keys);
// Valid UTF-8 without the characters that XML 1.0 cannot say.
bool CanBeInXml(std::string_view text);

// Removes the quotes, the "W/" in front, spaces and control characters.
std::string UnquoteETag(std::string_view etag);

}  // namespace holdfast
