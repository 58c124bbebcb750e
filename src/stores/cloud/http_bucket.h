// HttpBucket: read-only access to the files of a web server.
//
// Keys are plain paths below the root URL; they are escaped when sent. The
// root's own path and query are used as given: a query that signs URLs
// (presigned URLs, shared access signatures) is appended to every request and
// never shown.
// The version of a file is its ETag, if that is a strong one; otherwise its
// modification time with its size; otherwise only its size, and then a file
// that is rewritten with as many bytes goes unnoticed. Weak ETags say nothing
// about bytes and are ignored. Reads of a version carry If-Match or
// If-Unmodified-Since rather than If-Range, because a server answers a failed
// If-Range with the complete file; whatever a server does with these headers,
// the version of the answer itself is compared. A server that ignores ranges
// (200 for 206) is refused, unless the complete file was wanted. Nothing can be
// listed or written.
//
// Thread-safety: any thread. Ownership: owns its HttpClient. Units: bytes.
// Errors: as in bucket.h; Unimplemented for lists and writes;
// FailedPrecondition for a server that ignores ranges or answers with an
// unknown status.
#pragma once

#include <memory>
#include <string>

#include "stores/cloud/bucket.h"
#include "stores/cloud/remote_options.h"

namespace holdfast {

// InvalidArgument for anything but an http:// or https:// URL. No I/O.
// `headers` are sent with every request to the root's own server, but not to
// another server that it redirects to.
Result<std::shared_ptr<Bucket>> OpenHttpBucket(const std::string& root_url,
                                               const RemoteOptions& options,
                                               HttpHeaders headers = {});

}  // namespace holdfast
