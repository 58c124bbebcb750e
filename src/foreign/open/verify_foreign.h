// Verifies anything that holdfast reads through the public interface of
// Checkpoint: reads every element and every text, and checks all checksums on
// the way.
//
// Thread-safety, units, errors: as Verify in holdfast/checkpoint.h.
#pragma once

#include <string>

#include "engine/checkpoint/verify_share.h"
#include "foreign/open/open.h"

namespace holdfast {

// Verifies the checkpoint at `place`, which is absolute.
// REQUIRES: `format` is not kNone.
Result<ShareReport> VerifyForeign(ForeignFormat format, const Place& place,
                                  const OpenOptions& options,
                                  const RunOptions& run, WorkShare share);

}  // namespace holdfast
