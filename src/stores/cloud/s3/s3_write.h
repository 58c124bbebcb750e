// Conditional writes, and telling a write of one's own from another's.
//
// A request whose answer was lost is sent again; its condition then fails
// because of its own success. So every conditional write carries an id as
// metadata (x-amz-meta-holdfast-write), by which it is known again, also where
// a rival writes the very same bytes.
//
// Thread-safety: any thread. Units: none. Errors: as Bucket's.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "stores/cloud/bucket.h"
#include "stores/cloud/s3/s3_connection.h"
#include "stores/cloud/s3/s3_error.h"
#include "stores/http/http_client.h"

namespace holdfast {

// `id`: used once.
void AddWriteId(const std::string& id, HttpHeaders& headers);
// If-None-Match: * or If-Match: <version>, without quotes: Ceph takes only
// those, Amazon both.
void AddCondition(const Condition& condition, HttpHeaders& headers);

// Whether a condition did not hold: 412; 409 of a write that came between; 404
// of an object that had to be there.
bool IsFailedCondition(const Condition& condition, int status,
                       const S3Error& error);
// 409: this write and another came at once, and neither is known to have won.
bool IsWriteConflict(int status, const S3Error& error);

Status FailedCondition(const std::string& url, const Condition& condition);

// The version of the object when it was written with that id.
std::optional<std::string> FindOwnWrite(S3Connection& connection,
                                        std::string_view key,
                                        const std::string& id);

// Looks, and returns FailedPrecondition when the condition does not hold now.
// For requests whose conditions some servers ignore.
Status CheckCondition(S3Connection& connection, std::string_view key,
                      const Condition& condition);

Result<std::string> PutObject(S3Connection& connection, std::string_view key,
                              std::span<const std::string_view> pieces,
                              const Condition& condition);

Status DeleteObject(S3Connection& connection, std::string_view key,
                    const Condition& condition);
// Judges the answer to such a request.
Status JudgeDelete(const S3Connection& connection, const S3Request& request,
                   const Result<HttpResponse>& response,
                   const Condition& condition);

// Whether an error that came with status 200 may go away by itself.
bool IsPassingError(const S3Error& error);
// Some time, longer with each attempt from 0 on.
void WaitBeforeAttempt(int attempt);

}  // namespace holdfast
