// The files that a view in a bucket refers to: copies within the bucket, which
// the server makes.
//
// Thread-safety: any thread. Units: bytes.
// Errors: those of the bucket: DataLoss for a source that is no longer of the
// version that was described, FailedPrecondition when another save has taken
// the target over; of CheckSameBucket: Unimplemented.
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

// Asks the server.
Result<ObjectEntry> DescribeObject(const Place& place);

// The copies that `rows` speak of, `versions` being those of what they are
// copies of. `directory` is one that this process saves to, and has no such
// files yet.
Status CopySources(const Place& directory, const std::vector<SourceFile>& rows,
                   const std::vector<std::string>& versions,
                   const CancelToken* cancel);

// CopyCompanions of source_links.h.
Status CopyCompanionObjects(const Place& from, const Place& directory,
                            const CancelToken* cancel);

}  // namespace holdfast
