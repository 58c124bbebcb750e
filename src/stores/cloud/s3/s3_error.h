// Turns S3's error answers into Statuses that say what to do.
//
// Thread-safety: pure functions. Units: none. Errors: the functions' results.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "stores/cloud/s3/s3_credentials.h"
#include "stores/cloud/s3/s3_settings.h"
#include "stores/cloud/s3/s3_xml.h"
#include "stores/http/http_client.h"

namespace holdfast {

// Returns the error in the answer's body, with any status. If the body has no
// request id, it is taken from the headers.
S3Error ErrorOfResponse(const HttpResponse& response);

struct S3Attempt {
  std::string_view action;                      // "reading", "listing"
  std::string url;                              // "s3://bucket/key"
  const AwsCredentials* credentials = nullptr;  // null: not fetched yet
  std::string endpoint;
  std::string region;
};

// Returns a Status like "s3://b/k: reading: AccessDenied (status 403): Access
// Denied: … (credentials: environment (AWS_ACCESS_KEY_ID), key …WXYZ; request
// id …)". The server's message is cut off at 300 bytes, and left out if it
// repeats a secret.
Status S3Failure(const S3Attempt& attempt, int status, const S3Error& error);

// Returns "environment (AWS_ACCESS_KEY_ID), key …WXYZ", for example.
std::string CredentialsText(const AwsCredentials& credentials);

}  // namespace holdfast
