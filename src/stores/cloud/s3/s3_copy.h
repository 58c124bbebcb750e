// Copies objects within a bucket, on the server.
//
// Thread-safety: any thread. Ownership: shares the connection. Units: bytes.
// Errors: those of Bucket::Copy; DataLoss when the source changes during the
// copy.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "stores/cloud/bucket.h"
#include "stores/cloud/s3/s3_connection.h"

namespace holdfast {

// Copies with one request, or in parts if the server finds the source too large
// (more than 5 GiB at Amazon).
Result<std::string> CopyObject(std::shared_ptr<S3Connection> connection,
                               std::string_view source, std::string_view target,
                               const Condition& condition,
                               const std::string& source_version);

// Copies in parts. REQUIRES: source.byte_count > 0.
Result<std::string> CopyObjectInParts(std::shared_ptr<S3Connection> connection,
                                      const ObjectEntry& source,
                                      std::string_view target,
                                      const Condition& condition,
                                      uint64_t part_bytes);

}  // namespace holdfast
