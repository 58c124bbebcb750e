// HttpBucket: files of a web server, for reading.
//
// Keys are plain paths below the root URL; they are escaped as they are sent.
// The root's own path and query stand as given: what signs URLs by a query
// (presigned URLs, shared access signatures) is appended to every request and
// never shown.
// The version of a file is its ETag, if it is a strong one; else the time of
// its last change with its size; else only its size, and a file that is
// rewritten with as many bytes is then not noticed. Weak ETags say nothing of
// bytes and are not looked at. Reads of a version carry If-Match or
// If-Unmodified-Since rather than If-Range, whose failure would be answered
// with the whole file; and whatever a server does with them, the answer's own
// version is compared. A server that ignores ranges (200 for 206) is refused,
// unless the whole file was wanted. Nothing can be listed or written.
//
// Thread-safety: any thread. Ownership: owns its HttpClient. Units: bytes.
// Errors: as in bucket.h; Unimplemented for lists and writes;
// FailedPrecondition for a server that ignores ranges or answers with a status
// of no known meaning.
#pragma once

#include <memory>
#include <string>

#include "stores/cloud/bucket.h"
#include "stores/cloud/remote_options.h"

namespace holdfast {

// InvalidArgument for anything but an http:// or https:// URL. No I/O.
// `headers` go with every request to the root's own server, and to no other
// that it redirects to.
Result<std::shared_ptr<Bucket>> OpenHttpBucket(const std::string& root_url,
                                               const RemoteOptions& options,
                                               HttpHeaders headers = {});

}  // namespace holdfast
