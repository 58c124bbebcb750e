// The files that a view in a bucket refers to: copies within the bucket, made
// by the server.
//
// Thread-safety: any thread. Units: bytes.
// Errors: those of the bucket: DataLoss for a source whose version is no longer
// the one described, FailedPrecondition when another save has taken the target
// over; of CheckSameBucket: Unimplemented.
#pragma once

#include <string>
#include <vector>

#include "engine/format/digest_file.h"
#include "ground/base/cancel.h"
#include "stores/cloud/bucket.h"
#include "stores/place/place.h"

namespace holdfast {

// Ok for two paths of a file system, and for two places of one bucket.
Status CheckSameBucket(const Place& source, const Place& target);

// Asks the server about the object.
Result<ObjectEntry> DescribeObject(const Place& place);

// Makes the copies that `rows` describe; `versions` are the versions of their
// originals. This process saves to `directory`, which has no such files yet.
Status CopySources(const Place& directory, const std::vector<SourceFile>& rows,
                   const std::vector<std::string>& versions,
                   const CancelToken* cancel);

// CopyCompanions of source_links.h, for objects.
Status CopyCompanionObjects(const Place& from, const Place& directory,
                            const CancelToken* cancel);

}  // namespace holdfast
