// Conditional writes, and telling our own write from another client's.
//
// A request whose answer was lost is sent again; its condition then fails
// because the first attempt succeeded. So every conditional write carries an id
// as metadata (x-amz-meta-holdfast-write) that identifies it, even if a rival
// writes the very same bytes.
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

// `id` must be used only once.
void AddWriteId(const std::string& id, HttpHeaders& headers);
// If-None-Match: * or If-Match: <version>, without quotes: Ceph accepts only
// this form, Amazon both.
void AddCondition(const Condition& condition, HttpHeaders& headers);

// Whether the condition did not hold: 412; 409 if another write came between;
// 404 if the object had to exist.
bool IsFailedCondition(const Condition& condition, int status,
                       const S3Error& error);
// 409: this write and another arrived at the same time, and it is unknown which
// won.
bool IsWriteConflict(int status, const S3Error& error);

Status FailedCondition(const std::string& url, const Condition& condition);

// The version of the object if it was written with that id.
std::optional<std::string> FindOwnWrite(S3Connection& connection,
                                        std::string_view key,
                                        const std::string& id);

// Checks the object, and returns FailedPrecondition if the condition does not
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

// Whether an error that came with status 200 may be temporary.
bool IsPassingError(const S3Error& error);
// Waits, longer with each attempt, counted from 0.
void WaitBeforeAttempt(int attempt);

}  // namespace holdfast
