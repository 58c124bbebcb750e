// Finds the place of a checkpoint to be read. An address is resolved to a step
// of a root (stores/place/step_address.h), and a repository of the hub to its
// snapshot in the hub's cache.
//
// Thread-safety: reads the environment, the cache's directory, the clock, and
// the root of an address. Errors: InvalidArgument (not the name of a
// repository, or an '@' after a directory of steps that does not form an
// address), NotFound (HF_HUB_OFFLINE is set and the cache lacks the repository;
// or no step has that address: the message lists the existing steps), DataLoss
// (the latest step is damaged).
#pragma once

#include <string>

#include "stores/place/place.h"

namespace holdfast {

// Returns `path` as an absolute path. For an address, returns the step's path
// (ResolveStepAddress). For hf://, returns the snapshot's directory or file, if
// the cache has all weights that the URL names, in a format that is read
// through links; otherwise the URL itself, from which ranges are read. The
// cache is never written, so this is only for readers.
Result<Place> SourcePlace(const std::string& path);

}  // namespace holdfast
