// Where a checkpoint that is to be read lies: an address stands for a step of a
// root (stores/place/step_address.h), and a snapshot in the hub's cache for the
// repository that it is of.
//
// Thread-safety: reads the environment, the cache's directory, the clock, and
// the root of an address. Errors: InvalidArgument (no name of a repository, an
// '@' behind a directory of steps and no address), NotFound (HF_HUB_OFFLINE is
// set and the cache lacks what is asked for; no step of that address: the
// message says what there is), DataLoss (the latest step is damaged).
#pragma once

#include <string>

#include "stores/place/place.h"

namespace holdfast {

// `path`, absolute; of an address the step's (ResolveStepAddress). For hf://
// the snapshot's directory or file, where the cache has all of the weights that
// it names, in a format that is read through links; else the URL itself, which
// is read by ranges. Only for readers: nobody writes into the cache.
Result<Place> SourcePlace(const std::string& path);

}  // namespace holdfast
