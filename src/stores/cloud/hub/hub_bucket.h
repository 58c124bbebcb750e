// HubBucket: read-only access to one revision of a repository on a model hub.
//
// The first use asks which commit the revision is, and lists the commit's
// files. From then on, this commit is read by its hash, so a push in the
// meantime has no effect. Keys are file paths. A version is the hash of the
// content in git or in git's large file storage. File contents are read by
// ranges from the server that the hub redirects to, which gets no token. An
// answer whose size differs from the listed size is DataLoss. Nothing can be
// written.
//
// As long as the bucket lives, a revision that is opened again is the same
// commit (stores/place/bucket_registry.h).
//
// Thread-safety: any thread. Ownership: owns its connections. Units: bytes.
// Errors: as in bucket.h. NotFound (no such repository, revision or file),
// PermissionDenied (a gated repository, a refused token), FailedPrecondition
// (HF_HUB_OFFLINE is set), DataLoss (invalid answers), each with advice;
// Unimplemented for writes.
#pragma once

#include <memory>
#include <string>

#include "stores/cloud/bucket.h"
#include "stores/cloud/environment.h"
#include "stores/cloud/remote_options.h"

namespace holdfast {

// Opens a bucket. `root` must be like "hf://org/model@revision"; anything else
// is InvalidArgument. Reads the environment and the token file, and makes no
// requests.
Result<std::shared_ptr<Bucket>> OpenHubBucket(
    const std::string& root, const RemoteOptions& options,
    const Environment& environment = ProcessEnvironment());

}  // namespace holdfast
