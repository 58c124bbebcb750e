// Reads objects in a bucket, each from a single version. Ranges are split,
// requested concurrently, and checked against the version of the object that
// was seen first.
//
// Thread-safety: any thread. Ownership: borrows everything. Units: bytes.
// Errors: those of bucket.h; DataLoss "changed while being read"; OutOfRange in
// the form of ResolveRange.
#pragma once

#include <span>
#include <string>

#include "ground/base/bytes.h"
#include "ground/base/cancel.h"
#include "stores/cloud/bucket.h"
#include "stores/cloud/seen_versions.h"

namespace holdfast {

struct VersionRead {
  std::string key;  // in the bucket
  uint64_t offset = 0;
  std::span<char> target;
};

// Fills all targets. Returns the first failure in the order of `reads`.
Status ReadVersions(Bucket& bucket, SeenVersions& seen,
                    std::span<const VersionRead> reads,
                    const CancelToken* cancel);

// Reads a range; kToEnd reads to the end.
Result<Bytes> ReadVersion(Bucket& bucket, SeenVersions& seen,
                          const std::string& key, const ByteRange& range);

// Returns the current size and version. DataLoss if another version was seen
// before.
Result<ObjectEntry> StatVersion(Bucket& bucket, SeenVersions& seen,
                                const std::string& key);

}  // namespace holdfast
