// Makes a bucket on an existing connection, for tests with their own
// credentials, clocks and clients.
//
// Thread-safety: as Bucket. Ownership: shares the connection. Errors: none.
#pragma once

#include <memory>

#include "stores/cloud/bucket.h"
#include "stores/cloud/s3/s3_connection.h"

namespace holdfast {

std::shared_ptr<Bucket> MakeS3Bucket(std::shared_ptr<S3Connection> connection);

}  // namespace holdfast
