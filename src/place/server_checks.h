// What a writer wants to know of, and do to, an object store beyond files:
// whether it keeps its word on conditions, and what killed uploads have left.
//
// Thread-safety: any thread. Ownership: none.
// Errors: FailedPrecondition (conditions are ignored), those of the bucket.
#pragma once

#include <string>

#include "holdfast/status.h"

namespace holdfast {

// Whether the server refuses to create the file `path` (a URL), which exists,
// once more, and to replace a version of it that is none: without that two
// writers may both win. A bucket that has said yes is not asked again by this
// process. False also when somebody has removed the file since: `path` is free
// then, unless somebody else has taken it, and the caller may ask again.
Result<bool> HonoursConditions(const std::string& path);
// Says for the bucket of `path` that its server ignores conditions:
// FailedPrecondition. HOLDFAST_ALLOW_UNSAFE_COMMIT=1 in the environment takes
// any server, with a word on stderr; nobody is asked again then.
Status TakeServerAsItIs(const std::string& path);

// Aborts all unfinished uploads of objects below the directory `path`. Ok where
// nobody may list them.
Status AbortUploadsBelow(const std::string& path);

}  // namespace holdfast
