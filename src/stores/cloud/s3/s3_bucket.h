// S3Bucket: a Bucket on Amazon S3 or a server that speaks its protocol.
//
// Requests are signed with Signature V4 (sigv4.h), using credentials found
// where Amazon's own tools look (s3_credentials.h). Endpoint, region and style
// come from the options, the environment and the shared files (s3_settings.h).
//
// Three problems are each fixed by one more request: a wrong region (the answer
// has the bucket's), a wrong clock (the answer has the server's time), and an
// expired session token (new credentials are fetched). An object's version is
// its ETag without quotes.
//
// Thread-safety, units, errors: those of stores/cloud/bucket.h. Messages reveal
// only where the credentials were found and the last 4 characters of the key
// id.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "holdfast/status.h"
#include "stores/cloud/bucket.h"
#include "stores/cloud/remote_options.h"

namespace holdfast {

// Opens a bucket. Does no I/O except reading the shared files. InvalidArgument
// for an invalid bucket name or endpoint; Unimplemented for directory buckets
// ("--x-s3") and access point ARNs.
Result<std::shared_ptr<Bucket>> OpenS3Bucket(const std::string& bucket,
                                             const RemoteOptions& options);

}  // namespace holdfast
