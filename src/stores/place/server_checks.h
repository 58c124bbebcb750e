// The checks that a writer asks of an object store beyond files: whether the
// server honours conditions, and the removal of uploads that killed writers
// left.
//
// Thread-safety: any thread. Ownership: none.
// Errors: FailedPrecondition (conditions are ignored), those of the bucket.
#pragma once

#include "holdfast/status.h"
#include "stores/place/place.h"

namespace holdfast {

// True when the server refuses to create the file `path` (a URL) again, which
// exists, and to replace a version of it that never was: without that two
// writers may both win. A bucket that passed is not asked again by this
// process. Also false when another process has removed the file since: `path`
// is free then, unless a third one has taken it, and the caller may ask again.
Result<bool> HonoursConditions(const Place& place);
// Reports for the bucket of `path` that its server ignores conditions:
// FailedPrecondition. With HOLDFAST_ALLOW_UNSAFE_COMMIT=1 in the environment it
// prints a warning to stderr instead, and the server is not asked again.
Status TakeServerAsItIs(const Place& place);

// Aborts all unfinished uploads of objects below the directory `path`. Ok when
// the credentials may not list them.
Status AbortUploadsBelow(const Place& place);

}  // namespace holdfast
