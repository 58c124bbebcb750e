// Makes the files that a view in a bucket refers to: copies within the bucket,
// which the server makes.
//
// Thread-safety: any thread. Units: bytes.
// Errors: those of the bucket: DataLoss for a source whose version has changed
// since it was described, FailedPrecondition if another save has taken over the
// target. CheckSameBucket returns Unimplemented.
#pragma once

#include <string>
#include <vector>

#include "engine/format/digest_file.h"
#include "ground/base/cancel.h"
#include "stores/cloud/bucket.h"
#include "stores/place/place.h"

namespace holdfast {

// Returns ok for two file system paths, and for two places in the same bucket.
Status CheckSameBucket(const Place& source, const Place& target);

// Asks the server about the object.
Result<ObjectEntry> DescribeObject(const Place& place);

// Makes the copies that `rows` describe. `versions` are the versions of the
// originals. This process must be saving to `directory`, and the files must not
// exist there yet.
Status CopySources(const Place& directory, const std::vector<SourceFile>& rows,
                   const std::vector<std::string>& versions,
                   const CancelToken* cancel);

// Does for objects what CopyCompanions (source_links.h) does for files.
Status CopyCompanionObjects(const Place& from, const Place& directory,
                            const CancelToken* cancel);

}  // namespace holdfast
