// Services that a writer needs from an object store beyond file operations: a
// check whether the server honours conditions, and the removal of uploads that
// killed writers left.
//
// Thread-safety: any thread. Ownership: none.
// Errors: FailedPrecondition (conditions are ignored), those of the bucket.
#pragma once

#include "holdfast/status.h"
#include "stores/place/place.h"

namespace holdfast {

// True when the server refuses to create the existing file `place` (a URL)
// again, and to replace a version of it that never existed: without that, two
// writers may both win. A process does not check a bucket again that has
// passed. Also false when another process has removed the file since: the name
// is then free, unless a third process has taken it, and the caller may check
// again.
Result<bool> HonoursConditions(const Place& place);
// Reports that the server of the bucket ignores conditions: FailedPrecondition.
// With HOLDFAST_ALLOW_UNSAFE_COMMIT=1 in the environment it prints a warning to
// stderr instead, and the server is not checked again.
Status TakeServerAsItIs(const Place& place);

// Aborts all unfinished uploads of objects below the directory. Ok when the
// credentials may not list them.
Status AbortUploadsBelow(const Place& place);

}  // namespace holdfast
