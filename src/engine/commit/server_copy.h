// Copies within a bucket, made by the server, into the directory of a
// checkpoint.
//
// Thread-safety: any thread. Ownership: borrows all for the call.
// Errors: those of the bucket: DataLoss for a source that has changed,
// FailedPrecondition when another save has taken the directory over; those of
// RemoteCommit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ground/base/cancel.h"
#include "stores/place/place.h"

namespace holdfast {

struct ObjectCopy {
  std::string from;     // a key of the directory's bucket
  std::string version;  // that it must have; "": any
  std::string to;       // below the directory
};

// Into a directory that this process saves to, and that has no such files yet.
Status CopyObjects(const Place& directory,
                   const std::vector<ObjectCopy>& copies,
                   const CancelToken* cancel);

// The finished checkpoint at `staged` takes the place of the one at `target`,
// in the same bucket, and is removed; as a save that overwrites, at every
// moment one of the two is whole. `result_id` as CommitOptions.
Status ReplaceByCopy(const Place& staged, const Place& target,
                     const std::string& result_id, uint64_t now_ns,
                     const CancelToken* cancel);

}  // namespace holdfast
