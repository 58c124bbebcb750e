// Copies objects within a bucket, on the server, into a checkpoint's directory.
//
// Thread-safety: any thread. Ownership: borrows all arguments for the call.
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
  std::string version;  // that it must have; "" means any
  std::string to;       // below the directory
};

// Copies into a directory that this process saves to and that has no such files
// yet.
Status CopyObjects(const Place& directory,
                   const std::vector<ObjectCopy>& copies,
                   const CancelToken* cancel);

// Replaces the checkpoint at `target` by the finished one at `staged`, in the
// same bucket, and removes the latter. As in a save that overwrites, one of the
// two is complete at every moment. `result_id` is as in CommitOptions.
Status ReplaceByCopy(const Place& staged, const Place& target,
                     const std::string& result_id, uint64_t now_ns,
                     const CancelToken* cancel);

}  // namespace holdfast
