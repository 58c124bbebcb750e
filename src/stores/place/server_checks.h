// Services that a writer needs from an object store beyond file operations: a
// check whether the server honors the conditions of writes, and the removal of
// uploads that killed writers left behind.
//
// Thread-safety: any thread. Ownership: none.
// Errors: FailedPrecondition (conditions are ignored), those of the bucket.
#pragma once

#include "holdfast/status.h"
#include "stores/place/place.h"

namespace holdfast {

// Returns true if the server refuses two writes to the existing file `place` (a
// URL): one on the condition that the file does not exist, and one that it has
// a version that never existed. A server that accepts them may let two writers
// both win. A bucket that has passed is not checked again in this process.
//
// Also returns false if another process has removed the file in the meantime.
// The name is then free, unless a third process has taken it, and the caller
// may check again.
Result<bool> HonoursConditions(const Place& place);
// Returns FailedPrecondition, which says that the bucket's server ignores
// conditions. With HOLDFAST_ALLOW_UNSAFE_COMMIT=1 in the environment, it prints
// a warning to stderr instead, and the server is not checked again.
Status TakeServerAsItIs(const Place& place);

// Aborts all unfinished uploads of objects below the directory. Ok if the
// credentials may not list uploads.
Status AbortUploadsBelow(const Place& place);

}  // namespace holdfast
