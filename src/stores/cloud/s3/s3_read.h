// Reads objects in S3: ranges, complete objects, metadata.
//
// Thread-safety: any thread. Ownership: borrows the connection. Units: bytes;
// nanoseconds since 1970. Errors: those of stores/cloud/bucket.h.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ground/base/cancel.h"
#include "holdfast/status.h"
#include "stores/cloud/bucket.h"
#include "stores/cloud/s3/s3_connection.h"

namespace holdfast {

Result<ObjectEntry> HeadObject(S3Connection& connection, std::string_view key);

// Reads ranges. A complete object of up to 64 MiB takes one request.
std::vector<Result<GetResult>> GetObjects(S3Connection& connection,
                                          std::span<const GetRequest> requests,
                                          const CancelToken* cancel);

}  // namespace holdfast
