// Copies objects within a bucket, on the server, into a checkpoint's directory.
//
// Thread-safety: any thread. Ownership: borrows all arguments for the call.
// Errors: DataLoss for a source that has changed; FailedPrecondition if another
// save has taken over the directory; other errors of the bucket and of
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
  std::string version;  // required; "" means any
  std::string to;       // below the directory
};

// Copies into a directory that this process is saving to. The target files must
// not exist yet.
Status CopyObjects(const Place& directory,
                   const std::vector<ObjectCopy>& copies,
                   const CancelToken* cancel);

// Replaces the checkpoint at `target` with the finished checkpoint at `staged`
// in the same bucket, and removes `staged`. As in a save that overwrites, one
// of the two is complete at every moment. `result_id` is as in CommitOptions.
Status ReplaceByCopy(const Place& staged, const Place& target,
                     const std::string& result_id, uint64_t now_ns,
                     const CancelToken* cancel);

}  // namespace holdfast
