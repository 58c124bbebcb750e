// HubBucket: one revision of a repository of a model hub, for reading.
//
// The first use asks which commit the revision is, and lists its files; all
// that follows is of that commit, by its number, so that a push meanwhile
// changes nothing. Keys are the paths of files; a version is the hash that git
// or its large file storage has of the content. Files are read by ranges from
// where the hub redirects to, which gets no token, and an answer of another
// size than the listed one is DataLoss. Nothing is written.
//
// A revision that is asked for again is the same commit as long as the bucket
// lives (stores/place/bucket_registry.h).
//
// Thread-safety: any thread. Ownership: owns its connections. Units: bytes.
// Errors: as in bucket.h. NotFound (no such repository, revision or file),
// PermissionDenied (a gated repository, a refused token), FailedPrecondition
// (HF_HUB_OFFLINE is set), DataLoss (answers that make no sense), each with
// what to do; Unimplemented for writes.
#pragma once

#include <memory>
#include <string>

#include "stores/cloud/bucket.h"
#include "stores/cloud/environment.h"
#include "stores/cloud/remote_options.h"

namespace holdfast {

// `root`: "hf://org/model@revision". InvalidArgument for anything else. Reads
// the environment and the file of the token, and asks nobody.
Result<std::shared_ptr<Bucket>> OpenHubBucket(
    const std::string& root, const RemoteOptions& options,
    const Environment& environment = ProcessEnvironment());

}  // namespace holdfast
