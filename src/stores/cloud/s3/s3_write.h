// Conditional writes, which distinguish our own write from another client's.
//
// A request whose answer was lost is sent again, and its condition then fails
// because the first attempt succeeded. Every conditional write therefore
// carries an id as metadata (x-amz-meta-holdfast-write). The id identifies the
// write even if a rival writes the very same bytes.
//
// Thread-safety: any thread. Units: none. Errors: those of Bucket.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "stores/cloud/bucket.h"
#include "stores/cloud/s3/s3_connection.h"
#include "stores/cloud/s3/s3_error.h"
#include "stores/http/http_client.h"

namespace holdfast {

// Adds the id of a write, which must be used only once.
void AddWriteId(const std::string& id, HttpHeaders& headers);
// Adds "If-None-Match: *" or "If-Match: <version>". The version has no quotes:
// Ceph accepts only this form, Amazon accepts both.
void AddCondition(const Condition& condition, HttpHeaders& headers);

// Returns whether the answer means that the condition did not hold: 412; 409 if
// another write intervened; 404 if the object had to exist.
bool IsFailedCondition(const Condition& condition, int status,
                       const S3Error& error);
// Returns true for a 409 that means that this write and another arrived at the
// same time, and that it is unknown which one won.
bool IsWriteConflict(int status, const S3Error& error);

Status FailedCondition(const std::string& url, const Condition& condition);

// Returns the version of the object if the write with this id made it.
std::optional<std::string> FindOwnWrite(S3Connection& connection,
                                        std::string_view key,
                                        const std::string& id);

// Looks up the object, and returns FailedPrecondition if the condition does not
// hold now. For requests whose conditions some servers ignore.
Status CheckCondition(S3Connection& connection, std::string_view key,
                      const Condition& condition);

Result<std::string> PutObject(S3Connection& connection, std::string_view key,
                              std::span<const std::string_view> pieces,
                              const Condition& condition);

Status DeleteObject(S3Connection& connection, std::string_view key,
                    const Condition& condition);
// Interprets the answer to a delete request.
Status JudgeDelete(const S3Connection& connection, const S3Request& request,
                   const Result<HttpResponse>& response,
                   const Condition& condition);

// Returns whether an error that came with status 200 may be temporary.
bool IsPassingError(const S3Error& error);
// Waits before an attempt, longer each time. `attempt` counts from 0.
void WaitBeforeAttempt(int attempt);

}  // namespace holdfast
