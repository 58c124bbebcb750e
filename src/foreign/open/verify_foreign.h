// Verifying what holdfast reads through the public face of Checkpoint: every
// element and every text is read, whatever checksums there are on the way are
// checked.
//
// Thread-safety, units, errors: as Verify in holdfast/checkpoint.h.
#pragma once

#include <string>

#include "engine/checkpoint/verify_share.h"
#include "foreign/open/open.h"

namespace holdfast {

// REQUIRES: not kNone. `place` is absolute.
Result<ShareReport> VerifyForeign(ForeignFormat format, const Place& place,
                                  const OpenOptions& options,
                                  const RunOptions& run, WorkShare share);

}  // namespace holdfast
