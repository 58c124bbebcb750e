// HttpBucket: read-only access to the files of a web server.
//
// Keys are plain paths below the root URL and are escaped when sent. The root's
// own path and query are used as given. A query that signs URLs (presigned
// URLs, shared access signatures) is appended to every request and never shown.
//
// A file's version is its ETag, if that is a strong one; otherwise its
// modification time and size; otherwise only its size. With only the size, a
// file that is rewritten with as many bytes goes unnoticed. Weak ETags do not
// identify bytes and are ignored.
//
// Reads of a version carry If-Match or If-Unmodified-Since rather than
// If-Range, because a server answers a failed If-Range with the complete file.
// Whatever a server does with these headers, the version in the answer itself
// is compared. A server that ignores ranges (it answers 200 instead of 206) is
// refused, unless the complete file was wanted. Nothing can be listed or
// written.
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

// Opens a web server's directory without any I/O. InvalidArgument for anything
// but an http:// or https:// URL. `headers` are sent with every request to the
// root's own server, but not to a different server that it redirects to.
Result<std::shared_ptr<Bucket>> OpenHttpBucket(const std::string& root_url,
                                               const RemoteOptions& options,
                                               HttpHeaders headers = {});

}  // namespace holdfast
